import {
  executeAll,
  isNoFamily,
  listRoutes,
  type NetlinkError,
  type NetlinkSocket,
  RT_TABLE_MAIN,
  RTN_UNICAST,
  toAddRoute,
  toDeleteListedRoute,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import { type BlockRoute, changesFor, type RoutePlan } from "./plan.ts"

/**
 * The protocol number of the agent's routes, `ip route show proto 73`: none of <linux/rtnetlink.h> and of iproute2's rt_protos. Every
 * other route is another program's.
 */
export const ROUTE_PROTOCOL = 73

/** What a pass over the table has done. */
export interface RoutePass {
  readonly added: number
  readonly removed: number
  /** Why a wanted route is not there, one for each cause. */
  readonly faults: readonly string[]
}

/**
 * Makes the main table what the plan says, as far as the routes of `ROUTE_PROTOCOL` go: lists them once, and sends all changes in
 * one batch. A route of another program to the same prefix stays, and is a fault. Throws `NetlinkError`.
 */
export function syncRoutes(route: NetlinkSocket, plan: RoutePlan): RoutePass {
  const present = listRoutes(route, undefined, { table: RT_TABLE_MAIN, type: RTN_UNICAST, protocol: ROUTE_PROTOCOL })
  const { removed, added } = changesFor(plan, present)
  const requests = [
    ...removed.map((listed) => ({ ...toDeleteListedRoute(listed), route: undefined })),
    ...added.map((one) => ({ ...toAddRoute(specOf(one), "add"), route: one })),
  ]
  const refusals = executeAll(route, requests)
  const faults = new Set(plan.faults)
  let [isRemoved, isAdded] = [removed.length, added.length]
  for (const { request, error } of refusals) {
    if (request.route === undefined) {
      isRemoved--
      if (error.errno !== "ESRCH") faults.add(`Cannot ${error.message}`)
    } else {
      isAdded--
      faults.add(reasonOf(request.route, error))
    }
  }
  return { added: isAdded, removed: isRemoved, faults: [...faults] }
}

function specOf({ block, gateway }: BlockRoute) {
  return { dst: block.ip, prefix: block.prefix, gateway, protocol: ROUTE_PROTOCOL }
}

/** One text for all blocks of a node by one gateway. */
function reasonOf({ block, gateway, node }: BlockRoute, error: NetlinkError): string {
  const family = familyOf(block.ip) === AF_INET ? "IPv4" : "IPv6"
  const what = `Cannot route to the ${family} blocks of node "${node}" via ${formatIp(gateway)}`
  const { errno, message } = error
  if (errno === "EEXIST") return `${what}: a route of another program to a block is there`
  if (["ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "ENODEV"].includes(errno))
    return `${what}: the address is on no link of this node that is up (${errno})`
  if (isNoFamily(error)) return `${what}: the kernel has no ${family}`
  return `${what}: ${message}`
}
