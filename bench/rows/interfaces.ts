import type { HostNamespace } from "../../integration/lab/mod.ts"
import type { Scenario } from "../measure.ts"
import { contendersOf, type Suite } from "../suites.ts"
import { startNode } from "./node.ts"

/** A network without an end on the host, in the newest version that both suites speak. */
function config(type: string, keys: object, dataDir: string) {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "192.0.2.0/24" }]], routes: [{ dst: "0.0.0.0/0" }] }
  return { cniVersion: "1.0.0", name: "bench", type, ...keys, ipam }
}

/** A cable whose end "up0" is the host's uplink, and one whose end "dev0" goes into the container. */
async function layCables(host: HostNamespace): Promise<void> {
  for (const [end, far] of [
    ["up0", "far0"],
    ["dev0", "far1"],
  ] as const) {
    await host.exec("ip", ["link", "add", end, "up", "type", "veth", "peer", "name", far])
    await host.exec("ip", ["link", "set", far, "up"])
  }
}

/** Each with host-local. Debian's Go plugins have no tap. */
export function interfaces(suites: readonly Suite[]): Scenario[] {
  const kinds: [type: string, keys: object][] = [
    ["macvlan", { master: "up0" }],
    ["host-device", { device: "dev0" }],
    ["tap", {}],
  ]
  return kinds.map(([type, keys]) => {
    const able = type === "tap" ? suites.filter(({ name }) => name !== "Go") : suites
    return {
      name: `${type}+host-local`,
      steps: ["ADD", "DEL"],
      contenders: contendersOf(able, (suite) =>
        startNode(suite, (dataDir) => [config(type, keys, dataDir)], 0, layCables),
      ),
      baseline: type === "tap" ? "ours" : "Go",
    }
  })
}
