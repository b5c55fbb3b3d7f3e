import { linkSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { manualPages } from "../cmd/man/pages.ts"
import { copyExecutable } from "../install/mod.ts"
import { pluginNames } from "../suite/plugins.ts"
import { schemaFiles } from "../tools/configuration/mod.ts"
import type { Target } from "./engine.ts"
import { buildEach, buildTool as linkTool, type Start } from "./native.ts"
import { inputsOf, isUnchanged, noteBuild } from "./unchanged.ts"

const root = join(import.meta.dir, "..")

/**
 * Compiles the agent, which needs Bun for TLS, like `bun build --compile --bytecode --minify --format=esm --sourcemap
 * --no-compile-autoload-dotenv --no-compile-autoload-bunfig
 * --compile-exec-argv="--disallow-code-generation-from-strings=strict --no-addons --no-ffi-cc" cmd/agent.ts`.
 *
 * - no autoloading: the agent, which runs as root, reads no `.env` or `bunfig.toml` in the caller's working directory
 * - the last three flags: no code from strings, no addons, no C compiler inside
 *
 * Never strip the executable, because the program is stored after Bun's sections. `runtime` is Bun for another machine.
 */
export async function compileAgent(outfile: string, runtime?: string): Promise<void> {
  const scratch = mkdtempSync(join(dirname(outfile), ".build-"))
  try {
    const built = join(scratch, basename(outfile))
    process.chdir(root) // Bun names sources by their paths relative to the working directory
    await Bun.build({
      entrypoints: [join(root, "cmd/agent.ts")],
      target: "bun",
      format: "esm",
      minify: true,
      bytecode: true,
      sourcemap: "linked", // embedded, for file and line in stack traces
      define: { "process.env.NODE_ENV": '"production"' },
      compile: {
        outfile: built,
        ...(runtime !== undefined && { executablePath: runtime }),
        autoloadDotenv: false,
        autoloadBunfig: false,
        execArgv: ["--disallow-code-generation-from-strings=strict", "--no-addons", "--no-ffi-cc"],
      },
    })
    renameSync(built, outfile)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Copies the executable of each plugin into a directory, each file atomically. Removes all other files there. */
export function layPlugins(
  directory: string,
  executable: (name: string) => string,
  names: readonly string[] = pluginNames,
): void {
  mkdirSync(directory, { recursive: true })
  for (const name of names) {
    copyExecutable(executable(name), join(directory, `.${name}`))
    renameSync(join(directory, `.${name}`), join(directory, name))
  }
  for (const name of readdirSync(directory)) if (!names.includes(name)) rmSync(join(directory, name))
}

/** Builds the plugins, or only those in `names`, into a directory as they are installed: one file for each plugin. */
export async function buildPlugins(
  directory: string,
  target?: Target,
  start: Start = "snapshot",
  names: readonly string[] = pluginNames,
): Promise<void> {
  mkdirSync(dirname(directory), { recursive: true })
  const scratch = mkdtempSync(join(dirname(directory), ".plugins-"))
  try {
    await buildEach(scratch, target ? { target } : {}, start, names)
    layPlugins(directory, (name) => join(scratch, name), names)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Builds the command line tool `cni`, which is also `cnitool` under that name. */
export async function buildTool(out: string, target?: Target, start: Start = "snapshot"): Promise<void> {
  await linkTool(out, target ? { target } : {}, start)
}

/** Replaces the content of a directory by files, given by path. */
function writeFiles(directory: string, files: Readonly<Record<string, string>>): void {
  rmSync(directory, { recursive: true, force: true })
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
}

/**
 * Builds `dist/bin/<plugin>`, `dist/cni`, `dist/cnitool`, `dist/cni-agent`, manual pages in `dist/man` and JSON Schemas
 * in `dist/schemas`.
 */
export async function build(start: Start = "snapshot"): Promise<void> {
  const dist = join(root, "dist")
  mkdirSync(dist, { recursive: true })
  await Promise.all([
    buildPlugins(join(dist, "bin"), undefined, start),
    buildTool(join(dist, "cni"), undefined, start),
    compileAgent(join(dist, "cni-agent")),
  ])
  writeFiles(join(dist, "man"), manualPages())
  writeFiles(join(dist, "schemas"), schemaFiles())
  rmSync(join(dist, ".cnitool"), { force: true }) // left by a killed build, or made by a concurrent one
  linkSync(join(dist, "cni"), join(dist, ".cnitool"))
  renameSync(join(dist, ".cnitool"), join(dist, "cnitool"))
}

/** Builds, unless the files of the last build exist and no input has changed. */
async function buildIfChanged(start: Start): Promise<void> {
  const [dist, made] = [join(root, "dist"), ["bin", "cni", "cnitool", "cni-agent", "man", "schemas"]]
  const inputs = await inputsOf(root, start)
  if (isUnchanged(dist, made, inputs)) return
  noteBuild(dist, made, undefined)
  await build(start)
  noteBuild(dist, made, inputs)
}

if (import.meta.main) {
  await buildIfChanged(process.argv.includes("--bytecode") ? "bytecode" : "snapshot")
  console.log(
    `Built dist/cni, dist/cnitool, dist/cni-agent, dist/man, dist/schemas and dist/bin: ${pluginNames.join(", ")}`,
  )
}
