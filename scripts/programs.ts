/**
 * Lists the programs of the executables, based on the rows of `suite/plugins.ts`. A program imports its plugin and the
 * plugins that this one runs in its own process, each from its own module, so that no other code gets into the
 * executable.
 */
import { join } from "node:path"
import type { Plugin } from "../pkg/skel/mod.ts"
import { pluginNames, pluginsInProcess, requirePlugin } from "../suite/plugins.ts"
import type { Export, Program } from "./bundle.ts"
import { root } from "./engine.ts"

export { pluginNames }

/** The plugins that listen to the network, which start from bytecode. */
export const listeners: readonly string[] = pluginNames.filter((name) => requirePlugin(name).listens)

/** Returns an executable's programs. Any file name selects a single plugin, because users make copies and links. */
export async function programsOf(...names: readonly string[]): Promise<readonly Program[]> {
  const programs = await Promise.all(names.map(programOf))
  const [alone, another] = programs
  return alone && !another ? [alone, { ...alone, name: "unknown" }] : programs
}

/** The tool: one program under any file name. */
export const toolPrograms: readonly Program[] = [
  { name: "unknown", run: { main: join(root, "cmd/main.ts"), name: "runMain" } },
]

async function programOf(name: string): Promise<Program> {
  const row = requirePlugin(name)
  const inProcess = await Promise.all(pluginsInProcess(row).map((other) => exportOf(other, other)))
  if (row.run) return { name, run: await exportOf(row.plugin, row.run), args: [inProcess] }
  const run = { main: join(root, "pkg/skel/mod.ts"), name: "runPlugin" }
  return { name, run, args: [await exportOf(row.plugin, row.plugin), inProcess] }
}

/**
 * Returns a plugin's module, and the name under which the module exports `value`. Throws if it does not export `value`.
 */
async function exportOf({ name: plugin }: Plugin<unknown>, value: unknown): Promise<Export> {
  const [main] = new Bun.Glob(`{plugins,ipam,meta}/${plugin}/main.ts`).scanSync({ cwd: root, absolute: true })
  if (main === undefined) throw new Error(`Cannot find main.ts of plugin "${plugin}"`)
  const found = Object.entries<unknown>(await import(main)).find(([, exported]) => exported === value)
  if (!found)
    throw new Error(`Cannot build plugin "${plugin}": ${main} does not export what its row in suite/plugins.ts has`)
  return { main, name: found[0] }
}
