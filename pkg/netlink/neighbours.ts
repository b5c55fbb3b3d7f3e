import type { Family } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { bytes, mac } from "./codec.ts"
import { dumpFamily } from "./family.ts"
import { struct, u8, u16, u32 } from "./integers.ts"
import type { Ifindex, NamedLink } from "./links.ts"
import type { Message } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/neighbour.h> */
const RTM_GETNEIGH = 30
export const NeighbourState = { Reachable: 0x02, Stale: 0x04, Failed: 0x20, NoArp: 0x40, Permanent: 0x80 } as const

/** struct ndmsg, and the attributes after it. */
const neighbourHeader = struct({ family: u8, pad1: u8, pad2: u16, index: u32, state: u16, flags: u8, type: u8 })
const neighbourAttributes = attrs({ ip: [1, bytes], mac: [2, mac], master: [9, u32] }, { keepsUnknown: false })
const neighbourPayload = payloadOf(neighbourHeader, neighbourAttributes)
const { offsets } = neighbourHeader

/** <linux/socket.h>, <errno.h> */
const AF_BRIDGE = 7
const ENOENT = 2

/** A neighbor: an IP address on a link, and its hardware address. */
export interface Neighbour {
  ip: Uint8Array
  mac: string
  index: Ifindex
  /** `NeighbourState` bits. */
  state: number
}

/** Returns neighbors of one or both families, like `ip neigh show`; only in `states`, bits of `NeighbourState`. */
export function listNeighbours(route: NetlinkSocket, family?: Family, states?: number): Neighbour[] {
  const payload = neighbourHeader.encode({ family })
  return dumpFamily(route, family, { type: RTM_GETNEIGH, what: "list neighbours", payload }, (message) => {
    const state = u16.get(message.payload, offsets.state)
    if (states !== undefined && (state & states) === 0) return undefined
    const { ip = new Uint8Array(0), mac = "" } = neighbourPayload.decodeAttributes(message.payload)
    return { ip, mac, index: indexIn(message), state }
  })
}

function indexIn({ payload }: Message): Ifindex {
  return u32.get(payload, offsets.index) as Ifindex
}

/** An entry of a bridge's forwarding database: the port to which the bridge sends frames for a MAC. */
export interface ForwardingEntry {
  /** The index of the port, or of the bridge itself. */
  index: Ifindex
  /** Whether the frames are for the host itself. */
  isLocal: boolean
}

/**
 * Looks up a MAC in the forwarding database of a bridge, like `bridge fdb get MAC br BRIDGE`. Returns undefined if
 * there is no entry. Throws `NetlinkError`: `EOPNOTSUPP` before Linux 5.0.
 */
export function findForwardingEntry(route: NetlinkSocket, bridge: NamedLink, mac: string): ForwardingEntry | undefined {
  const payload = neighbourPayload.encode({ family: AF_BRIDGE }, { mac, master: bridge.index })
  const what = `look up ${mac} in bridge "${bridge.name}"`
  return route.find({ type: RTM_GETNEIGH, what, payload }, ENOENT, (message) => {
    const { header } = neighbourPayload.decode(message.payload)
    return { index: header.index as Ifindex, isLocal: (header.state & NeighbourState.Permanent) !== 0 }
  })
}

/** A static entry of a forwarding database, which the bridge neither learns nor changes because of frames. */
export interface FixedEntry extends ForwardingEntry {
  mac: string
}

/** NTF_SELF, <linux/neighbour.h>: an entry of the interface itself, not of the bridge. */
const NTF_SELF = 2

/**
 * Returns the entries of a bridge that do not age, like `bridge fdb show br BRIDGE static` and `permanent`. Learned
 * entries are skipped without decoding. A container's frames create entries, so the socket must have a budget. Throws
 * `NetlinkError`.
 */
export function listFixedEntries(route: NetlinkSocket, bridge: NamedLink): FixedEntry[] {
  const payload = neighbourPayload.encode({ family: AF_BRIDGE }, { master: bridge.index })
  const what = `list the forwarding database of "${bridge.name}"`
  return route.dump({ type: RTM_GETNEIGH, what, payload }, (message) => {
    const state = u16.get(message.payload, offsets.state)
    if ((state & (NeighbourState.Permanent | NeighbourState.NoArp)) === 0) return undefined
    const { mac } = neighbourPayload.decodeAttributes(message.payload)
    if (u8.get(message.payload, offsets.flags) & NTF_SELF || !mac) return undefined
    return { index: indexIn(message), isLocal: (state & NeighbourState.Permanent) !== 0, mac }
  })
}
