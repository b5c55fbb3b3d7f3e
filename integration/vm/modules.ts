import { readFile } from "node:fs/promises"
import { join } from "node:path"

/**
 * Returns the files of modules and of their dependencies in load order, like `modprobe --show-depends`. `directory` is
 * `/lib/modules/RELEASE`. Built-in modules have no file.
 */
export async function moduleFiles(directory: string, names: readonly string[]): Promise<string[]> {
  const dependencies = await readFile(join(directory, "modules.dep"), "utf8")
  const builtIn = await readFile(join(directory, "modules.builtin"), "utf8")
  return loadOrder(names, dependencies, builtIn).map((file) => join(directory, file))
}

/** Returns the files in load order. A line of `dependencies`, modules.dep(5), ends with the file to load first. */
export function loadOrder(names: readonly string[], dependencies: string, builtIn: string): string[] {
  const lines = dependencies.split("\n").map((line) => line.split(/:? /).filter(Boolean))
  const files = names.flatMap((name) => {
    const isModule = (file = "") => file.endsWith(`/${name}.ko`)
    const line = lines.find(([file]) => isModule(file?.replace(/:$/, "")))
    if (line !== undefined) return line.map((file) => file.replace(/:$/, "")).reverse()
    if (builtIn.split("\n").some(isModule)) return []
    throw new Error(`Cannot find the kernel module ${name}`)
  })
  return [...new Set(files)]
}
