import { unlessErrno } from "../libc/mod.ts"
import {
  attrs,
  bytes,
  concat,
  type Infer,
  type NetlinkSocket,
  NFGENMSG_SIZE,
  netfilterHeader,
  type Request,
  u8,
  u16be,
  u32,
  u32be,
} from "../netlink/mod.ts"
import { type Family, sameBytes } from "../types/mod.ts"

/** Message types: `NFNL_SUBSYS_CTNETLINK` << 8 | `enum cntl_msg_types`, <linux/netfilter/nfnetlink_conntrack.h> */
const IPCTNL_MSG_CT_GET = 0x101
const IPCTNL_MSG_CT_DELETE = 0x102

/** `CTA_FILTER_ORIG_FLAGS`: the fields that the kernel compares; `CTA_FILTER_F_*`, net/netfilter/nf_internals.h. */
const BY_PROTOCOL = 1 << 3
const BY_DESTINATION_PORT = 1 << 5

/**
 * Up to this number of ports, each port gets its own request. The kernel scans its whole table for every request, so
 * for more ports a single request lists all entries of the protocol.
 */
const PORTS_ASKED = 16

/** `CTA_TUPLE_*`, `CTA_IP_*`, `CTA_PROTO_*`, <linux/netfilter/nfnetlink_conntrack.h>. Some protocols have no ports. */
const tupleAttributes = attrs({
  ip: [1, attrs({ source4: [1, bytes], destination4: [2, bytes], source6: [3, bytes], destination6: [4, bytes] })],
  protocol: [2, attrs({ number: [1, u8], sourcePort: [2, u16be], destinationPort: [3, u16be] })],
})

/** `CTA_*`: a tracked connection, with its tuples in both directions: before and after translation. */
export const entryAttributes = attrs({ original: [1, tupleAttributes], reply: [2, tupleAttributes] })

/** `CTA_STATUS`. The flag `IPS_SEEN_REPLY` is set once a reply has arrived. */
const statusAttributes = attrs({ status: [3, u32be] })
const SEEN_REPLY = 2

/** The attributes of a delete request. The tuple is sent as the kernel listed it, with unknown attributes. */
const rawEntryAttributes = attrs({ original: [1, { ...bytes, nested: true }], id: [12, bytes], zone: [18, bytes] })

/** `CTA_TUPLE_ORIG` with protocol and destination port, and `CTA_FILTER`: enough to discard most entries. */
const filterAttributes = attrs({
  original: [1, attrs({ protocol: [2, attrs({ number: [1, u8], destinationPort: [3, u16be] })] })],
  filter: [25, attrs({ originalFlags: [1, u32] })],
})

/** The addresses and ports of a connection's packets in one direction. */
export interface Tuple {
  source: Uint8Array
  destination: Uint8Array
  /** IPPROTO_*: 6 TCP, 17 UDP, 132 SCTP. */
  protocol: number
  sourcePort: number
  destinationPort: number
}

/** A connection, or a flow of datagrams, that the kernel tracks. */
export interface ConntrackEntry {
  /** The tuple of its packets before any translation. */
  original: Tuple
  /** The tuple of the replies. Its source is the original packets' destination after translation. */
  reply: Tuple
}

/** The methods of a `NETLINK_NETFILTER` socket that this package uses. */
export type ConntrackSocket = Pick<NetlinkSocket, "dump" | "execute">

/**
 * Deletes the tracked connections to `ports` for which `isStale` is true, like `conntrack -D`, so that the kernel
 * translates their next packets again. `ports` are the destination ports before translation. Since Linux 5.8 the kernel
 * filters the list; older kernels list all connections. Keeps only stale connections in memory. Throws `NetlinkError`.
 */
export function flushConntrack(
  socket: ConntrackSocket,
  { family, protocol, ports }: { family: Family; protocol: number; ports: readonly number[] },
  isStale: (entry: ConntrackEntry) => boolean,
): void {
  const flushed = new Set(ports)
  const header = netfilterHeader(family)
  for (const port of flushed.size > PORTS_ASKED ? [undefined] : flushed) {
    let isPicked = true
    const stale = socket.dump(listRequest(header, protocol, port), ({ payload }) => {
      const attributes = payload.subarray(NFGENMSG_SIZE)
      const { number, destinationPort = 0 } = filterAttributes.decode(attributes).original?.protocol ?? {}
      if (port !== undefined && destinationPort !== port) isPicked = false
      if (number !== protocol || !flushed.has(destinationPort)) return undefined
      return isStale(readEntry(attributes)) ? deletionOf(header, attributes) : undefined
    })
    for (const payload of stale) deleteEntry(socket, payload)
    if (!isPicked) return // a kernel before 5.8 has listed all connections
  }
}

/**
 * Deletes the tracked connections of a family, with any protocol, that have been neither translated nor answered and
 * for which `isStale` is true. Such a connection began while a rule was missing, and the kernel would treat all of its
 * later packets, including a retransmitted SYN, like the first. Throws `NetlinkError`.
 */
export function flushUntranslated(
  socket: ConntrackSocket,
  family: Family,
  isStale: (original: Tuple) => boolean,
): void {
  const header = netfilterHeader(family)
  const request = { type: IPCTNL_MSG_CT_GET, what: "list tracked connections", payload: header }
  const stale = socket.dump(request, ({ payload }) => {
    const attributes = payload.subarray(NFGENMSG_SIZE)
    if (((statusAttributes.decode(attributes).status ?? SEEN_REPLY) & SEEN_REPLY) !== 0) return undefined
    const { original, reply } = readEntry(attributes)
    const isTranslated =
      !sameBytes(original.source, reply.destination) || !sameBytes(original.destination, reply.source)
    return !isTranslated && isStale(original) ? deletionOf(header, attributes) : undefined
  })
  for (const payload of stale) deleteEntry(socket, payload)
}

function readEntry(attributes: Uint8Array): ConntrackEntry {
  const { original, reply } = entryAttributes.decode(attributes)
  return { original: readTuple(original), reply: readTuple(reply) }
}

function deletionOf(header: Uint8Array, attributes: Uint8Array): Uint8Array {
  const { original, id, zone } = rawEntryAttributes.decode(attributes)
  return concat([header, rawEntryAttributes.encode({ original, id, zone })])
}

function listRequest(header: Uint8Array, protocol: number, port: number | undefined): Request {
  const attributes = filterAttributes.encode({
    original: { protocol: { number: protocol, destinationPort: port } },
    filter: { originalFlags: port === undefined ? BY_PROTOCOL : BY_PROTOCOL | BY_DESTINATION_PORT },
  })
  return { type: IPCTNL_MSG_CT_GET, what: "list tracked connections", payload: concat([header, attributes]) }
}

function readTuple({ ip = {}, protocol = {} }: Infer<typeof tupleAttributes> = {}): Tuple {
  return {
    source: ip.source4 ?? ip.source6 ?? new Uint8Array(0),
    destination: ip.destination4 ?? ip.destination6 ?? new Uint8Array(0),
    protocol: protocol.number ?? 0,
    sourcePort: protocol.sourcePort ?? 0,
    destinationPort: protocol.destinationPort ?? 0,
  }
}

/** Deletes a connection by its ID too, because a newer one may have the same addresses and ports. */
function deleteEntry(socket: ConntrackSocket, payload: Uint8Array): void {
  const request = { type: IPCTNL_MSG_CT_DELETE, what: "delete a tracked connection", payload }
  unlessErrno(() => socket.execute(request), "ENOENT")
}
