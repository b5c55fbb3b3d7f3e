import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { bytes } from "./codec.ts"
import { struct, u8, u16, u32, u64 } from "./integers.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTM_GETNEIGHTBL = 66

/** struct ndt_config, <linux/neighbour.h> */
const tableConfig = struct({
  keyLength: u16,
  entrySize: u16,
  entries: u32,
  lastFlush: u32,
  lastRandom: u32,
  hashRandom: u32,
  hashMask: u32,
  hashChain: u32,
  proxyQueue: u32,
})

/** The offset of `table_fulls`, the last field of struct ndt_stats. Kernels before 4.3 lack the field. */
const REFUSED_AT = 80

/** struct ndtmsg and its attributes. */
const tablePayload = payloadOf(
  struct({ family: u8, pad1: u8, pad2: u16 }),
  attrs({ most: [4, u32], config: [5, tableConfig], statistics: [7, bytes] }),
)

/** The kernel's table of neighbors of one family, shared by all namespaces of the machine. */
export interface NeighbourTable {
  family: Family
  entries: number
  /** gc_thresh3, the maximum of entries. Beyond it an unused entry is dropped, or the new entry refused. */
  most: number
  /** The number of entries refused since boot. */
  refused: number
}

const families: readonly Family[] = [AF_INET, AF_INET6]

/**
 * Returns the neighbor tables and their fill levels, like `ip ntable show`. The parameters of a node's links, of which
 * there may be hundreds, take several datagrams, and the kernel repeats the table in each of them. Throws
 * `NetlinkError`.
 */
export function listNeighbourTables(route: NetlinkSocket): NeighbourTable[] {
  const request = { type: RTM_GETNEIGHTBL, what: "list neighbor tables", payload: new Uint8Array(4) }
  const found = route.dump(request, (message): NeighbourTable | undefined => {
    const { header, attributes } = tablePayload.decode(message.payload)
    const family = families.find((each) => each === header.family)
    const { most, config, statistics = new Uint8Array() } = attributes
    // The parameters of each link are sent in a message without a table configuration.
    if (family === undefined || most === undefined || config?.entries === undefined) return undefined
    const refused = statistics.length >= REFUSED_AT + u64.size ? Number(u64.get(statistics, REFUSED_AT)) : 0
    return { family, entries: config.entries, most, refused }
  })
  return [...new Map(found.map((table) => [table.family, table])).values()]
}
