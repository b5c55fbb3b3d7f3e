import type { Family } from "../types/mod.ts"
import { align } from "./attrs.ts"
import { dumpFamily } from "./family.ts"
import { u16, u32 } from "./integers.ts"
import { RTM_GETROUTE, routeHeader } from "./routes.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTA_OIF = 4
const RTA_TABLE = 15
const ATTRIBUTE = 4

/**
 * Returns the numbers of a family's routing tables that contain routes, each with the output links of its routes, like
 * `ip route show table all`. The link is 0 for a route without a link or with several. Because there may be many
 * routes, no other attribute is decoded. Throws `NetlinkError`.
 */
export function listRoutingTables(route: NetlinkSocket, family: Family): Map<number, Set<number>> {
  const tables = new Map<number, Set<number>>()
  const request = { type: RTM_GETROUTE, what: "list routes", payload: routeHeader.encode({ family }) }
  dumpFamily(route, family, request, ({ payload }) => {
    const table = findU32(payload, RTA_TABLE) ?? payload[4] ?? 0 // rtm_table, which has one byte
    const links = tables.get(table) ?? new Set()
    tables.set(table, links.add(findU32(payload, RTA_OIF) ?? 0))
    return undefined
  })
  return tables
}

/** Returns the value of an attribute of a route; undefined if the route does not have it. */
function findU32(payload: Uint8Array, type: number): number | undefined {
  for (let at = routeHeader.size; at + 2 * ATTRIBUTE <= payload.length; ) {
    if (u16.get(payload, at + 2) === type) return u32.get(payload, at + ATTRIBUTE)
    at += align(Math.max(ATTRIBUTE, u16.get(payload, at)))
  }
  return undefined
}
