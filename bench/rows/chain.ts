import { HostNamespace, pluginEnv, TemporaryDirectory } from "../../integration/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { Station } from "../station.ts"
import { pluginPath, suites } from "../suites.ts"

type Suite = keyof typeof suites

/** What a pod of a node gets: a bridge with masquerade, a sysctl, and a port of the host. */
function chainOf(dataDir: string): { type: string }[] {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.88.0.0/16" }]], routes: [{ dst: "0.0.0.0/0" }] }
  const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]
  const plugins = [
    { type: "bridge", bridge: "bench0", isGateway: true, ipMasq: true, ipam },
    { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
    { type: "portmap", runtimeConfig: { portMappings } },
  ]
  return plugins.map((plugin) => ({ cniVersion: "1.0.0", name: "bench", ...plugin }))
}

/** Times the calls that a runtime makes for one pod: each plugin's ADD forwards, each plugin's DEL backwards. */
async function startChain(suite: Suite): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
  const station = stack.use(Station.open(host))
  const chain = chainOf(directory.path)
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const call = { containerId: `bench-${++rounds}`, netns: pod.path, ifName: "eth0", path: suites[suite] }
      const run = (verb: "ADD" | "DEL", plugin: { type: string }, prevResult: object) => {
        const bin = pluginPath(suite, plugin.type)
        const input = JSON.stringify({ ...plugin, ...prevResult })
        return station.time({ command: [bin], env: pluginEnv({ ...call, bin, verb }), input })
      }
      const times = { ADD: 0, DEL: 0 }
      let last: { prevResult?: unknown } = {}
      for (const plugin of chain) {
        const { ms, stdout } = await run("ADD", plugin, last)
        last = { prevResult: JSON.parse(stdout) }
        times.ADD += ms
      }
      for (const plugin of chain.toReversed()) times.DEL += (await run("DEL", plugin, last)).ms
      return times
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** A pod's whole network: bridge(ipMasq)+host-local, tuning, portmap. */
export const chain: Scenario = {
  name: "bridge+ipMasq+host-local, tuning, portmap",
  steps: ["ADD", "DEL"],
  contenders: { ours: () => startChain("ours"), Go: () => startChain("Go") },
  baseline: "Go",
  targets: { ours: { ADD: 0.4, DEL: 0.35 } },
}
