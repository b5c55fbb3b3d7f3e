import type { Scenario } from "../measure.ts"
import { contendersOf, type Suite } from "../suites.ts"
import { startNode } from "./node.ts"

/** The numbers of other pods on the node: one, and kubelet's default maximum. */
export const residents = [1, 110] as const

/** Returns the configuration of a bridge with gateway and host-local, in the newest version of both suites. */
export function bridgeConfig(ipMasq: boolean, dataDir: string) {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.88.0.0/16" }]], routes: [{ dst: "0.0.0.0/0" }] }
  return { cniVersion: "1.0.0", name: "bench", type: "bridge", bridge: "bench0", isGateway: true, ipMasq, ipam }
}

/** Returns the scenarios of a pod's first plugin: bridge with host-local, with and without masquerade. */
export function bridges(suites: readonly Suite[]): Scenario[] {
  const scenario = (ipMasq: boolean, pods: number): Scenario => ({
    name: `bridge${ipMasq ? "+ipMasq" : ""}+host-local beside ${pods}`,
    steps: ["ADD", "DEL"],
    contenders: contendersOf(suites, (suite) => startNode(suite, (dataDir) => [bridgeConfig(ipMasq, dataDir)], pods)),
    baseline: "Go",
  })
  return [scenario(false, 1), ...residents.map((pods) => scenario(true, pods))]
}
