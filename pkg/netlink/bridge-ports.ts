import { appendAttribute, attrs, payloadOf, readAttributes } from "./attrs.ts"
import { codec, type Infer, nested } from "./codec.ts"
import { struct, u16, u32 } from "./integers.ts"
import { RTM_DELLINK } from "./link-changes.ts"
import { bridgePortAttributes, type bridgePortData, linkHeader } from "./link-table.ts"
import { type Ifindex, type Link, type NamedLink, RTM_GETLINK } from "./links.ts"
import type { Output } from "./output.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTM_SETLINK = 19
const AF_BRIDGE = 7
/** Asks the kernel to report consecutive VLANs as ranges: a port with all VLANs then has one entry instead of 4094. */
const RTEXT_FILTER_BRVLAN_COMPRESSED = 4

/** struct bridge_vlan_info and its flags, <linux/if_bridge.h>; inside IFLA_AF_SPEC it is IFLA_BRIDGE_VLAN_INFO. */
const vlanInfo = struct({ flags: u16, id: u16 })
const IFLA_BRIDGE_VLAN_INFO = 2
const PVID = 0x2
const UNTAGGED = 0x4
const RANGE_BEGIN = 0x8
const RANGE_END = 0x10

/** The payload of a message of family AF_BRIDGE with settings of a bridge port. */
const settingsPayload = payloadOf(linkHeader, bridgePortAttributes)

/** Changes how a bridge treats a port, like `bridge link set dev NAME hairpin on`. Throws `NetlinkError`. */
export function setBridgePort(route: NetlinkSocket, link: NamedLink, port: Infer<typeof bridgePortData>): void {
  const payload = settingsPayload.encode({ family: AF_BRIDGE, index: link.index }, { port })
  route.execute({ type: RTM_SETLINK, what: `set ${Object.keys(port).join(", ")} of port "${link.name}"`, payload })
}

/** A range of consecutive VLANs of a bridge port, from `first` to `last` inclusive. */
export interface VlanRange {
  first: number
  last: number
  /** Untagged frames that the port receives are assigned to this VLAN. A port has at most one such VLAN. */
  pvid?: true
  /** The port sends frames of this VLAN untagged. */
  untagged?: true
}

const vlanList = nested(codec(appendRanges, readRanges))

/** The payload of a message of family AF_BRIDGE with the VLANs of a port. */
const portPayload = payloadOf(linkHeader, attrs({ vlans: [26, vlanList], extMask: [29, u32] }))

/**
 * Adds a port of a bridge to VLANs in one request, like `bridge vlan add dev PORT vid 100-110`. VLANs that the port
 * already has get the given flags. Throws `EOPNOTSUPP` for a link that is not a bridge port, or a kernel without
 * CONFIG_BRIDGE_VLAN_FILTERING.
 */
export function addPortVlans(route: NetlinkSocket, port: NamedLink, vlans: readonly VlanRange[]) {
  change(route, RTM_SETLINK, port, vlans)
}

/** Removes a port from VLANs, like `bridge vlan del dev PORT vid 1`. Ignores VLANs that the port does not have. */
export function deletePortVlans(route: NetlinkSocket, port: NamedLink, vlans: readonly VlanRange[]) {
  change(route, RTM_DELLINK, port, vlans)
}

function change(route: NetlinkSocket, type: number, { index, name }: NamedLink, vlans: readonly VlanRange[]): void {
  if (vlans.length === 0) return
  const payload = portPayload.encode({ family: AF_BRIDGE, index }, { vlans: [...vlans] })
  const verb = type === RTM_SETLINK ? "add" : "delete"
  route.execute({ type, what: `${verb} VLANs ${describeVlans(vlans)} of port "${name}"`, payload })
}

/** Returns the VLANs of one port, or of all bridges and ports, like `bridge -compressvlans vlan show`. */
export function listPortVlans(route: NetlinkSocket, port?: Pick<Link, "index">): Map<Ifindex, VlanRange[]> {
  const payload = portPayload.encode({ family: AF_BRIDGE }, { extMask: RTEXT_FILTER_BRVLAN_COMPRESSED })
  const found = route.dump({ type: RTM_GETLINK, what: "list VLANs of bridge ports", payload }, (answer) => {
    const { header, attributes } = portPayload.decode(answer.payload)
    if (port && header.index !== port.index) return undefined
    return [header.index as Ifindex, attributes.vlans ?? []] as const
  })
  return new Map(found)
}

/** Formats VLANs in the syntax of `bridge vlan`: "100 pvid untagged, 200-210"; "none" for an empty list. */
export function describeVlans(vlans: readonly VlanRange[]): string {
  const ranges = vlans.map(({ first, last, pvid, untagged }) => {
    const ids = first === last ? `${first}` : `${first}-${last}`
    return `${ids}${pvid ? " pvid" : ""}${untagged ? " untagged" : ""}`
  })
  return ranges.join(", ") || "none"
}

function appendRanges(vlans: VlanRange[], to: Output): void {
  for (const { first, last, pvid, untagged } of vlans) {
    const flags = (pvid ? PVID : 0) | (untagged ? UNTAGGED : 0)
    const [begin, end] = first === last ? [0, 0] : [RANGE_BEGIN, RANGE_END]
    appendAttribute(IFLA_BRIDGE_VLAN_INFO, vlanInfo, { flags: flags | begin, id: first }, to)
    if (first !== last) appendAttribute(IFLA_BRIDGE_VLAN_INFO, vlanInfo, { flags: flags | end, id: last }, to)
  }
}

function readRanges(from: Uint8Array, start: number, end: number): VlanRange[] {
  const ranges: VlanRange[] = []
  let first: number | undefined
  for (const { type, payload } of readAttributes(from.subarray(start, end))) {
    if (type !== IFLA_BRIDGE_VLAN_INFO) continue
    const { flags, id } = vlanInfo.decode(payload)
    first ??= id
    if (flags & RANGE_BEGIN) continue
    const range: VlanRange = { first, last: id }
    if (flags & PVID) range.pvid = true
    if (flags & UNTAGGED) range.untagged = true
    ranges.push(range)
    first = undefined
  }
  return ranges
}
