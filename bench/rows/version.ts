import { join } from "node:path"
import { HostNamespace, pluginEnv } from "../../integration/mod.ts"
import { compile } from "../../scripts/build.ts"
import type { Contender, Scenario } from "../measure.ts"
import { Station } from "../station.ts"
import { pluginPath } from "../suites.ts"

/** Times `bin` with CNI_COMMAND=VERSION: the start of a process, its chunk, one line out, its end. */
async function startVersion(bin: string): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const station = stack.use(Station.open(host))
  const job = { command: [bin], env: pluginEnv({ bin, verb: "VERSION" }), input: "" }
  const kept = stack.move()
  return {
    round: async () => ({ VERSION: (await station.time(job)).ms }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Compiled with the very options of the plugins. */
async function buildEmpty(): Promise<string> {
  const path = join(import.meta.dir, "../../dist/bench/empty")
  await compile(join(import.meta.dir, "../empty.ts"), path)
  return path
}

/** What starting a plugin costs, above an executable that does nothing. */
export const version: Scenario = {
  name: "bridge",
  steps: ["VERSION"],
  contenders: {
    "empty executable": async () => startVersion(await buildEmpty()),
    ours: () => startVersion(pluginPath("ours", "bridge")),
    Go: () => startVersion(pluginPath("Go", "bridge")),
  },
  baseline: "empty executable",
  targets: { ours: { VERSION: 1.25 } },
}
