import { HostNamespace, pluginEnv, type Sample, Station } from "../../integration/lab/mod.ts"
import { pluginNames } from "../../suite/plugins.ts"
import type { Contender, Scenario } from "../measure.ts"
import { programs } from "../programs.ts"
import { contendersOf, hasPlugin, pluginPath, type Suite } from "../suites.ts"

/** Starts a contender that times `bin` with CNI_COMMAND=VERSION, which starts a process, prints one line and ends. */
async function startVersion(bin: string, cold = false): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const station = stack.use(Station.open(host))
  const job = { command: [bin], env: pluginEnv({ bin, verb: "VERSION" }), input: "", cold }
  const kept = stack.move()
  return {
    round: async () => ({ VERSION: await station.time(job) }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/**
 * Returns the scenarios of a plugin's start, also of the first start after a boot, beside a program that does nothing.
 */
export function versions(suites: readonly Suite[]): Scenario[] {
  const scenario = (name: string, cold: boolean): Scenario => ({
    name,
    steps: ["VERSION"],
    contenders: {
      ...contendersOf(suites, (suite) => startVersion(pluginPath(suite, "bridge"), cold)),
      "empty C program": () => startVersion(programs.empty, cold),
    },
    baseline: "Go",
  })
  const everyPlugin: Scenario = {
    name: "VERSION of",
    steps: pluginNames,
    contenders: contendersOf(suites, startEvery),
    baseline: "Go",
  }
  return [scenario("bridge", false), scenario("bridge, from a cold page cache,", true), everyPlugin]
}

async function startEvery(suite: Suite): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const station = stack.use(Station.open(host))
  const bins = pluginNames
    .filter((name) => hasPlugin(suite, name))
    .map((name) => [name, pluginPath(suite, name)] as const)
  const kept = stack.move()
  return {
    async round() {
      const samples: Record<string, Sample> = {}
      for (const [name, bin] of bins) {
        samples[name] = await station.time({ command: [bin], env: pluginEnv({ bin, verb: "VERSION" }), input: "" })
      }
      return samples
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
