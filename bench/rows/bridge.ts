import type { Contender, Scenario } from "../measure.ts"
import { residents, type Suite, startNode } from "./pods.ts"

/** A bridge with gateway and host-local addresses, in the newest version that both suites speak. */
export function bridgeConfig(ipMasq: boolean, dataDir: string) {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.88.0.0/16" }]], routes: [{ dst: "0.0.0.0/0" }] }
  return { cniVersion: "1.0.0", name: "bench", type: "bridge", bridge: "bench0", isGateway: true, ipMasq, ipam }
}

function startBridge(suite: Suite, ipMasq: boolean, pods: number): Promise<Contender> {
  return startNode(suite, (dataDir) => [bridgeConfig(ipMasq, dataDir)], pods)
}

function bridgeScenario(ipMasq: boolean, pods: number): Scenario {
  return {
    name: `bridge${ipMasq ? "+ipMasq" : ""}+host-local beside ${pods}`,
    steps: ["ADD", "DEL"],
    contenders: { ours: () => startBridge("ours", ipMasq, pods), Go: () => startBridge("Go", ipMasq, pods) },
    baseline: "Go",
    ...(ipMasq ? { targets: { ours: { ADD: 0.6, DEL: 0.6 } } } : {}),
  }
}

/** A pod's first plugin: bridge with host-local, with and without masquerade. */
export const bridges: readonly Scenario[] = [
  bridgeScenario(false, 1),
  ...residents.map((pods) => bridgeScenario(true, pods)),
]
