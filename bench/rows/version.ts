import { HostNamespace, pluginEnv } from "../../integration/mod.ts"
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

/** What starting a plugin costs. */
export const version: Scenario = {
  name: "bridge",
  steps: ["VERSION"],
  contenders: {
    ours: () => startVersion(pluginPath("ours", "bridge")),
    Go: () => startVersion(pluginPath("Go", "bridge")),
  },
  baseline: "Go",
  targets: { ours: { VERSION: 0.45 } },
}
