import { align, attrs } from "./attrs.ts"
import { bytes, type Codec, codec, DecodeError } from "./codec.ts"
import { struct, u8, u16, u32 } from "./integers.ts"
import type { Ifindex } from "./links.ts"

/** <linux/rtnetlink.h> */
export const RTNH_F_ONLINK = 4

/** struct rtnexthop */
const nextHopHeader = struct({ length: u16, flags: u8, weight: u8, index: u32 })
const nextHopAttributes = attrs({ gateway: [5, bytes] })

/** One next hop of a multipath route. `weight` counts from 1. */
export interface NextHop {
  gateway?: Uint8Array
  index?: Ifindex
  weight?: number
  onLink?: boolean
}

/** `RTA_MULTIPATH`: a sequence of next hops, each with its own attributes. */
export const multipath: Codec<NextHop[]> = codec(
  (hops, to) => {
    for (const { gateway, index = 0, weight = 1, onLink } of hops) {
      const start = to.end
      nextHopHeader.append({ flags: onLink ? RTNH_F_ONLINK : 0, weight: weight - 1, index }, to)
      nextHopAttributes.append({ gateway }, to)
      u16.put(to.end - start, to.room, start)
    }
  },
  (from, start, end) => {
    const hops: NextHop[] = []
    for (let at = start; at + nextHopHeader.size <= end; ) {
      const length = u16.get(from, at)
      if (length < nextHopHeader.size || at + length > end) {
        throw new DecodeError(
          `the next hop at byte ${at - start} has length ${length}, but only ${end - at} bytes are left`,
        )
      }
      const header = nextHopHeader.read(from, at, at + nextHopHeader.size)
      const { gateway } = nextHopAttributes.read(from, at + nextHopHeader.size, at + length)
      const hop: NextHop = { index: header.index as Ifindex, weight: header.weight + 1 }
      if (gateway) hop.gateway = gateway
      if (header.flags & RTNH_F_ONLINK) hop.onLink = true
      hops.push(hop)
      at += align(length)
    }
    return hops
  },
)
