import {
  executeAll,
  isNoFamily,
  listRoutes,
  type NetlinkError,
  type NetlinkSocket,
  RT_TABLE_MAIN,
  RTN_UNREACHABLE,
  toAddRoute,
  toDeleteListedRoute,
} from "../../pkg/netlink/mod.ts"
import { formatCidr, formatIp } from "../../pkg/types/mod.ts"
import { changesFor, familyName, type RangeRoute, type RoutePlan } from "./plan.ts"

/**
 * The protocol number of the agent's routes, `ip route show proto 73`: none of <linux/rtnetlink.h> and of iproute2's rt_protos. Every
 * other route is another program's.
 */
export const ROUTE_PROTOCOL = 73

/** The metric of the unreachable routes: that of the bridge to its containers, and any other program's, comes first. */
const UNREACHABLE_METRIC = 1_000_000

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
  const present = listRoutes(route, undefined, { table: RT_TABLE_MAIN, protocol: ROUTE_PROTOCOL })
  const { removed, added } = changesFor(plan, present)
  const requests = [
    ...removed.map((listed) => ({ ...toDeleteListedRoute(listed), route: undefined })),
    ...added.map((one) => ({ ...toAddRoute(specOf(one), "add"), route: one })),
  ]
  const faults = new Set(plan.faults)
  let [isRemoved, isAdded] = [removed.length, added.length]
  for (const { request, error } of executeAll(route, requests)) {
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

function specOf({ range, gateway }: RangeRoute) {
  const to = { dst: range.ip, prefix: range.prefix, protocol: ROUTE_PROTOCOL }
  return gateway ? { ...to, gateway } : { ...to, type: RTN_UNREACHABLE, priority: UNREACHABLE_METRIC }
}

function reasonOf({ range, gateway, node }: RangeRoute, error: NetlinkError): string {
  const family = familyName(range.ip)
  const way = gateway ? ` via ${formatIp(gateway)}` : ""
  const what = `Cannot route to the ${family} range ${formatCidr(range)} of node "${node}"${way}`
  const { errno, message } = error
  if (errno === "EEXIST") return `${what}: another route to it is there, as "ip route show ${formatCidr(range)}" tells`
  if (["ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "ENODEV"].includes(errno))
    return `${what}: the address is on no link of this node that is up (${errno})`
  if (isNoFamily(error)) return `${what}: the kernel has no ${family}`
  return `${what}: ${message}`
}
