import {
  attrs,
  concat,
  NetlinkError,
  type NetlinkSocket,
  netfilterHeader,
  type Request,
  u8,
  u16be,
  u32,
} from "../netlink/mod.ts"
import { flowAttributes, rawFlowAttributes, readTuple, type Tuple } from "./tuple.ts"

/** Message types: `NFNL_SUBSYS_CTNETLINK` << 8 | `enum cntl_msg_types`, <linux/netfilter/nfnetlink_conntrack.h> */
const IPCTNL_MSG_CT_GET = 0x101
const IPCTNL_MSG_CT_DELETE = 0x102
/** Bytes of struct nfgenmsg. */
const HEADER_SIZE = 4

/** `CTA_FILTER_ORIG_FLAGS`: which parts of the tuple count; `CTA_FILTER_F_*`, net/netfilter/nf_internals.h. */
const BY_PROTOCOL = 1 << 3
const BY_DESTINATION_PORT = 1 << 5

/** `CTA_TUPLE_ORIG` with nothing but the protocol and perhaps the port, and `CTA_FILTER`. */
const filterAttributes = attrs({
  original: [1, attrs({ protocol: [2, attrs({ number: [1, u8], destinationPort: [3, u16be] })] })],
  filter: [25, attrs({ originalFlags: [1, u32] })],
})

/** What tells at a glance whether a flow may be wanted. */
const targetAttributes = attrs({
  original: [1, attrs({ protocol: [2, attrs({ number: [1, u8], destinationPort: [3, u16be] })] })],
})

/** What this room needs of a netlink socket for `NETLINK_NETFILTER`. */
export type Conntrack = Pick<NetlinkSocket, "dump" | "execute">

/** A flow that the kernel tracks. */
export interface Flow {
  /** Of its packets as they came, before any translation. */
  original: Tuple
  /** Of the answers: their source is where the flow was sent on to. */
  reply: Tuple
}

/** For each question the kernel walks its whole table: of more ports than this all flows of the protocol are asked for. */
const PORTS_ASKED = 16

/**
 * Forgets the flows of a protocol to these ports that `isStale`, like `conntrack -D`, so that their next packets are
 * translated anew. Ports are those of the first direction, before translation. The kernel picks the flows out (Linux 5.8;
 * older ones list all), and of what it lists only what is stale is held. Answers how many there were. Throws `NetlinkError`.
 */
export function deleteFlows(
  socket: Conntrack,
  { family, protocol, ports }: { family: "ip" | "ip6"; protocol: number; ports: readonly number[] },
  isStale: (flow: Flow) => boolean,
): number {
  const wanted = new Set(ports)
  const header = netfilterHeader(family === "ip" ? 2 : 10)
  let count = 0
  for (const port of wanted.size > PORTS_ASKED ? [undefined] : wanted) {
    let isPicked = true
    const stale = socket.dump(listRequest(header, protocol, port), ({ payload }) => {
      const attributes = payload.subarray(HEADER_SIZE)
      const { number, destinationPort = 0 } = targetAttributes.decode(attributes).original?.protocol ?? {}
      if (port !== undefined && destinationPort !== port) isPicked = false
      if (number !== protocol || !wanted.has(destinationPort)) return undefined
      const found = flowAttributes.decode(attributes)
      if (!isStale({ original: readTuple(found.original), reply: readTuple(found.reply) })) return undefined
      const { original, id, zone } = rawFlowAttributes.decode(attributes)
      return concat([header, rawFlowAttributes.encode({ original, id, zone })])
    })
    for (const payload of stale) if (deleteFlow(socket, payload)) count++
    if (!isPicked) return count // by an older kernel, which has listed all there are
  }
  return count
}

function listRequest(header: Uint8Array, protocol: number, port: number | undefined): Request {
  const attributes = filterAttributes.encode({
    original: { protocol: { number: protocol, destinationPort: port } },
    filter: { originalFlags: port === undefined ? BY_PROTOCOL : BY_PROTOCOL | BY_DESTINATION_PORT },
  })
  return { type: IPCTNL_MSG_CT_GET, what: "list tracked connections", payload: concat([header, attributes]) }
}

/** The number of the entry goes along: another flow with the same addresses and ports may have come meanwhile. */
function deleteFlow(socket: Conntrack, payload: Uint8Array): boolean {
  try {
    socket.execute({ type: IPCTNL_MSG_CT_DELETE, what: "forget a tracked connection", payload })
    return true
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === "ENOENT") return false
    throw error
  }
}
