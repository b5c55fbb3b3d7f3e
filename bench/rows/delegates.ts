import type { HostNamespace } from "../../integration/lab/mod.ts"
import type { Scenario } from "../measure.ts"
import { ableTo, baselineOf, contendersOf, type Suite } from "../suites.ts"
import { bridgeConfig } from "./bridge.ts"
import { type ChainOf, startNode } from "./node.ts"

const subnetFile = "/run/cni/subnet.env"

async function writeSubnetFile(host: HostNamespace): Promise<void> {
  const keys = ["FLANNEL_NETWORK=10.0.0.0/8", "FLANNEL_SUBNET=10.88.1.1/24", "FLANNEL_MTU=1450", "FLANNEL_IPMASQ=true"]
  await Bun.write(host.file(subnetFile), `${keys.join("\n")}\n`)
}

/**
 * Returns bridge and sbr, which moves the interface's routes, and adds a default route through the interface's gateway.
 */
const withSbr: ChainOf = (dataDir) => [
  bridgeConfig(false, dataDir),
  { cniVersion: "1.0.0", name: "bench", type: "sbr" } as { type: string },
]

/** Returns flannel, which calls bridge for the same interface. */
const byFlannel: ChainOf = (dataDir) => [
  {
    cniVersion: "1.0.0",
    name: "bench",
    type: "flannel",
    subnetFile,
    ipam: { dataDir },
    delegate: { bridge: "bench0", ipMasq: false },
  } as { type: string },
]

export function delegates(suites: readonly Suite[]): Scenario[] {
  const able = ableTo(suites, "flannel")
  return [
    {
      name: "bridge+host-local+sbr",
      steps: ["ADD", "DEL"],
      contenders: contendersOf(suites, (suite) => startNode(suite, withSbr, 0)),
      baseline: "Go",
    },
    {
      name: "flannel+bridge+host-local",
      steps: ["ADD", "DEL"],
      contenders: contendersOf(able, (suite) => startNode(suite, byFlannel, 0, writeSubnetFile)),
      baseline: baselineOf(able),
    },
  ]
}
