import type { Contender, Scenario } from "../measure.ts"
import { bridgeConfig } from "./bridge.ts"
import { residents, type Suite, startNode } from "./pods.ts"

/** What a pod of a node gets: a bridge with masquerade, a sysctl, and a port of the host. */
function chainOf(dataDir: string, pod: number) {
  const portMappings = [{ hostPort: 8080 + pod, containerPort: 80, protocol: "tcp" }]
  const shared = { cniVersion: "1.0.0", name: "bench" }
  return [
    bridgeConfig(true, dataDir),
    { ...shared, type: "tuning", sysctl: { "net.core.somaxconn": "500" }, dataDir },
    { ...shared, type: "portmap", runtimeConfig: { portMappings } },
  ]
}

/** Times the calls that a runtime makes for one pod: each plugin's ADD forwards, each plugin's DEL backwards. */
async function startChain(suite: Suite, pods: number): Promise<Contender> {
  const node = await startNode(suite, chainOf, pods)
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      return { ADD: await node.time("ADD", containerId), DEL: await node.time("DEL", containerId) }
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  }
}

/** A pod's whole network, beside one other pod and on a full node. */
export const chains: readonly Scenario[] = residents.map((pods) => ({
  name: `bridge+ipMasq+host-local, tuning, portmap beside ${pods}`,
  steps: ["ADD", "DEL"],
  contenders: { ours: () => startChain("ours", pods), Go: () => startChain("Go", pods) },
  baseline: "Go",
  targets: { ours: { ADD: 0.4, DEL: 0.35 } },
}))
