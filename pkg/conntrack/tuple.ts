import { attrs, bytes, type Infer, u8, u16be, u32be } from "../netlink/mod.ts"

/** `CTA_TUPLE_*` with `CTA_IP_*` and `CTA_PROTO_*`, <linux/netfilter/nfnetlink_conntrack.h>. Ports of protocols that have any. */
export const tupleAttributes = attrs({
  ip: [1, attrs({ source4: [1, bytes], destination4: [2, bytes], source6: [3, bytes], destination6: [4, bytes] })],
  protocol: [2, attrs({ number: [1, u8], sourcePort: [2, u16be], destinationPort: [3, u16be] })],
  zone: [3, u16be],
})

/** One direction of a flow, as its packets say it. */
export interface Tuple {
  /** 4 or 16 bytes, network order. */
  source: Uint8Array
  destination: Uint8Array
  /** IPPROTO_*: 6 TCP, 17 UDP, 132 SCTP. */
  protocol: number
  sourcePort: number
  destinationPort: number
}

const NONE = new Uint8Array(0)

export function readTuple({ ip = {}, protocol = {} }: Infer<typeof tupleAttributes> = {}): Tuple {
  return {
    source: ip.source4 ?? ip.source6 ?? NONE,
    destination: ip.destination4 ?? ip.destination6 ?? NONE,
    protocol: protocol.number ?? 0,
    sourcePort: protocol.sourcePort ?? 0,
    destinationPort: protocol.destinationPort ?? 0,
  }
}

/** `CTA_*`: an entry of the table, with its two directions before and after translation. */
export const flowAttributes = attrs({
  original: [1, tupleAttributes],
  reply: [2, tupleAttributes],
  id: [12, u32be],
  zone: [18, u16be],
})

/** What a deletion says: the tuple as it was listed, byte for byte, so that nothing is lost that this room does not know. */
export const rawFlowAttributes = attrs({
  original: [1, { ...bytes, nested: true }],
  id: [12, bytes],
  zone: [18, bytes],
})
