import type { Scenario } from "../measure.ts"
import { bridgeConfig } from "./bridge.ts"
import { residents, startNode } from "./pods.ts"

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

/** A pod's whole network, beside one other pod and on a full node. */
export const chains: readonly Scenario[] = residents.map((pods) => ({
  name: `bridge+ipMasq+host-local, tuning, portmap beside ${pods}`,
  steps: ["ADD", "DEL"],
  contenders: { ours: () => startNode("ours", chainOf, pods), Go: () => startNode("Go", chainOf, pods) },
  baseline: "Go",
  targets: { ours: { ADD: 0.4, DEL: 0.35 } },
}))
