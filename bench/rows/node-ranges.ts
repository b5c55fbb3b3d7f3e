import { HostNamespace, type Job, pluginEnv, Station, TemporaryDirectory } from "../../integration/lab/mod.ts"
import type { NodeRanges } from "../../ipam/host-local/main.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

export const nodeRangesAdd = "node's range, host-local, ADD"
export const fromConfiguration = "range in the configuration"
export const fromFile = "range in the agent's file"

const subnet = "10.89.0.0/16"

/** Starts our host-local on its own host. `ipamOf` returns its configuration keys. */
async function start(suite: Suite, ipamOf: (host: HostNamespace) => Promise<object>): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const ipam = { type: "host-local", dataDir: directory.path, ...(await ipamOf(host)) }
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam })
  const bin = pluginPath(suite, "host-local")
  const job = (verb: "ADD" | "DEL", containerId: string): Job => ({
    command: [bin],
    env: pluginEnv({ bin, netns: pod.path, ifName: "eth0", path: suite.directory, verb, containerId }),
    input,
  })
  const station = stack.use(Station.open(host))
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const id = `bench-${++rounds}`
      return { ADD: await station.time(job("ADD", id)), DEL: await station.time(job("DEL", id)) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function fileOn(host: HostNamespace): Promise<object> {
  const rangesFile = "/run/cni/ranges/bench.json"
  const content: NodeRanges = { version: 1, node: "node-1", ranges: [subnet], former: [] }
  await Bun.write(host.file(rangesFile), JSON.stringify(content))
  return { rangesFile }
}

export function nodeRanges(suites: readonly Suite[]): Scenario[] {
  const ours = suites.find(({ name }) => name === "ours")
  if (!ours) return []
  return [
    {
      name: "node's range, host-local,",
      steps: ["ADD", "DEL"],
      contenders: {
        [fromConfiguration]: () => start(ours, async () => ({ ranges: [[{ subnet }]] })),
        [fromFile]: () => start(ours, fileOn),
      },
      baseline: fromConfiguration,
    },
  ]
}
