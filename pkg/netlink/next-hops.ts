import { align, attrs } from "./attrs.ts"
import { bytes, type Codec, concat, DecodeError, struct, u8, u16, u32 } from "./codec.ts"
import type { Ifindex } from "./links.ts"

/** <linux/rtnetlink.h> */
export const RTNH_F_ONLINK = 4

/** struct rtnexthop */
const nextHopHeader = struct({ length: u16, flags: u8, weight: u8, index: u32 })
const nextHopAttributes = attrs({ gateway: [5, bytes] })

/** One way of a multipath route. `weight` counts from 1. */
export interface NextHop {
  gateway?: Uint8Array
  index?: Ifindex
  weight?: number
  onLink?: boolean
}

/** `RTA_MULTIPATH`: next hops one after the other, each with attributes of its own. */
export const multipath: Codec<NextHop[]> = {
  encode: (hops) =>
    concat(
      hops.map(({ gateway, index = 0, weight = 1, onLink }) => {
        const attributes = nextHopAttributes.encode(gateway ? { gateway } : {})
        const length = nextHopHeader.size + attributes.length
        const header = { length, flags: onLink ? RTNH_F_ONLINK : 0, weight: weight - 1, index }
        return concat([nextHopHeader.encode(header), attributes])
      }),
    ),
  decode(found) {
    const hops: NextHop[] = []
    for (let at = 0; at + nextHopHeader.size <= found.length; ) {
      const length = u16.get(found, at)
      if (length < nextHopHeader.size || at + length > found.length) {
        throw new DecodeError(`next hop at byte ${at} says it has ${length} bytes of the ${found.length - at} left`)
      }
      const header = nextHopHeader.decode(found.subarray(at, at + nextHopHeader.size))
      const { gateway } = nextHopAttributes.decode(found.subarray(at + nextHopHeader.size, at + length))
      const hop: NextHop = { index: header.index as Ifindex, weight: header.weight + 1 }
      if (gateway) hop.gateway = gateway
      if (header.flags & RTNH_F_ONLINK) hop.onLink = true
      hops.push(hop)
      at += align(length)
    }
    return hops
  },
}
