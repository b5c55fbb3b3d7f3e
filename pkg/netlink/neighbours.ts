import type { Family } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { bytes, mac } from "./codec.ts"
import { dumpFamily } from "./family.ts"
import { struct, u8, u16, u32 } from "./integers.ts"
import type { Ifindex } from "./links.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/neighbour.h> */
const RTM_GETNEIGH = 30
export const NeighbourState = { Reachable: 0x02, Stale: 0x04, Failed: 0x20, NoArp: 0x40, Permanent: 0x80 } as const

/** struct ndmsg, and what follows it. */
const neighbourHeader = struct({ family: u8, pad1: u8, pad2: u16, index: u32, state: u16, flags: u8, type: u8 })
const neighbourPayload = payloadOf(neighbourHeader, attrs({ ip: [1, bytes], mac: [2, mac] }))

/** The hardware address of an IP address on a link. */
export interface Neighbour {
  ip: Uint8Array
  mac: string
  index: Ifindex
  /** `NeighbourState` bits. */
  state: number
}

/** The entries of a family, or of both, like `ip neigh show`. */
export function listNeighbours(route: NetlinkSocket, family?: Family): Neighbour[] {
  const payload = neighbourHeader.encode({ family })
  return dumpFamily(route, family, { type: RTM_GETNEIGH, what: "list neighbours", payload }, (message) => {
    const { header, attributes } = neighbourPayload.decode(message.payload)
    return {
      ip: attributes.ip ?? new Uint8Array(0),
      mac: attributes.mac ?? "",
      index: header.index as Ifindex,
      state: header.state,
    }
  })
}
