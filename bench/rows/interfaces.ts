import { type Feature, type HostNamespace, hasFeature } from "../../integration/lab/mod.ts"
import type { Scenario } from "../measure.ts"
import { ableTo, baselineOf, contendersOf, type Suite } from "../suites.ts"
import { startNode } from "./node.ts"

/** Returns the configuration of a plugin with host-local, in the newest version that both suites support. */
function config(type: string, keys: object, dataDir: string) {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "192.0.2.0/24" }]], routes: [{ dst: "0.0.0.0/0" }] }
  return { cniVersion: "1.0.0", name: "bench", type, ...keys, ipam }
}

/** Adds two veth pairs to the host: one for the uplink "up0", and one whose end "dev0" is moved into the container. */
async function layCables(host: HostNamespace): Promise<void> {
  for (const [end, far] of [
    ["up0", "far0"],
    ["dev0", "far1"],
  ] as const) {
    await host.exec("ip", ["link", "add", end, "up", "type", "veth", "peer", "name", far])
    await host.exec("ip", ["link", "set", far, "up"])
  }
}

const kinds: readonly { type: string; keys?: object; needs?: Feature }[] = [
  { type: "ptp" },
  { type: "macvlan", keys: { master: "up0" }, needs: "macvlan" },
  { type: "ipvlan", keys: { master: "up0" }, needs: "ipvlan" },
  { type: "vlan", keys: { master: "up0", vlanId: 5 }, needs: "vlan" },
  { type: "host-device", keys: { device: "dev0" } },
  { type: "dummy", needs: "dummy" },
  { type: "tap", needs: "tap" },
]

/** Returns a scenario with host-local for each interface plugin that the kernel supports. */
export function interfaces(suites: readonly Suite[]): Scenario[] {
  return kinds
    .filter(({ needs }) => needs === undefined || hasFeature(needs))
    .map(({ type, keys = {} }) => {
      const able = ableTo(suites, type)
      return {
        name: `${type}+host-local`,
        steps: ["ADD", "DEL"],
        contenders: contendersOf(able, (suite) =>
          startNode(suite, (dataDir) => [config(type, keys, dataDir)], 0, layCables),
        ),
        baseline: baselineOf(able),
      }
    })
}

/** Returns the features that this kernel lacks, which explain missing rows. */
export function leftOut(): string[] {
  return kinds.flatMap(({ type, needs }) => (needs !== undefined && !hasFeature(needs) ? [type] : []))
}
