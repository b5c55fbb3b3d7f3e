import { checkHostEnd } from "../../pkg/attachment/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import {
  bridgePortData,
  describeVlans,
  type Infer,
  type Link,
  listPortVlans,
  type NetlinkSocket,
  type VlanRange,
} from "../../pkg/netlink/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import type { BridgeConfig } from "./config.ts"
import { planPort, type VlanConfig } from "./vlans.ts"

/**
 * Compares a port of the bridge with what ADD made of it: whose it is, that it is up, and all that was asked of it.
 * Throws a `CniError` that names the first difference, expected and found.
 */
export function checkPort(
  host: NetlinkSocket,
  { bridge, port }: { bridge: Link; port: Link },
  owner: Owner,
  config: BridgeConfig,
): void {
  if (port.attributes.master !== bridge.index) {
    throw mismatch(`host interface "${port.name}"`, `a port of bridge "${bridge.name}"`, "not one of its ports")
  }
  checkHostEnd(port, owner, config)
  const { hairpin, isolated } = portDataOf(port)
  if (config.hairpinMode && hairpin !== 1) throw mismatch(`hairpin mode of port "${port.name}"`, "on", "off")
  if (config.portIsolation && isolated !== 1) throw mismatch(`isolation of port "${port.name}"`, "on", "off")
  checkVlans(host, port, config.vlans)
}

/** The planned VLANs and no others, unless the one that the bridge gave the port was to be kept. */
function checkVlans(host: NetlinkSocket, port: Link, vlans: VlanConfig): void {
  const plan = planPort(vlans)
  if (plan.length === 0) return
  const found = listPortVlans(host, port).get(port.index) ?? []
  const has = new Set(expand(found))
  const wanted = expand(plan)
  const isExact = vlans.preserveDefault || has.size === wanted.length
  if (isExact && wanted.every((vlan) => has.has(vlan))) return
  throw mismatch(`VLANs of port "${port.name}"`, describeVlans(plan), describeVlans(found))
}

/** Each VLAN by itself with its flags: how they are put together in ranges is the kernel's business. */
function expand(ranges: readonly VlanRange[]): string[] {
  const ids = ({ first, last }: VlanRange) => Array.from({ length: last - first + 1 }, (_, at) => first + at)
  return ranges.flatMap((range) => ids(range).map((id) => `${id} ${range.pvid ?? false} ${range.untagged ?? false}`))
}

function portDataOf({ attributes }: Link): Infer<typeof bridgePortData> {
  const { slaveKind, slaveData } = attributes.linkInfo ?? {}
  return slaveKind === "bridge" && slaveData !== undefined ? bridgePortData.decode(slaveData) : {}
}
