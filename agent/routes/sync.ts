import {
  executeAll,
  isNoFamily,
  listRoutes,
  type NetlinkError,
  type NetlinkSocket,
  RT_TABLE_MAIN,
  RTN_UNICAST,
  RTN_UNREACHABLE,
  toAddRoute,
  toDeleteListedRoute,
} from "../../pkg/netlink/mod.ts"
import { parseCidr, parseIp } from "../../pkg/types/mod.ts"
import { changesFor, familyName, type PresentRoute, presentIn, type RangeRoute, type RoutePlan } from "./plan.ts"

/**
 * The protocol number of the agent's routes: `ip route show proto 73`. Neither <linux/rtnetlink.h> nor iproute2's
 * rt_protos defines this number. Routes with other numbers belong to other programs.
 */
export const ROUTE_PROTOCOL = 73

/** The metric of unreachable routes, so that the bridge's route and other programs' routes take precedence. */
const UNREACHABLE_METRIC = 1_000_000

/** The result of a pass, which updates the table. */
export interface RoutePass {
  readonly added: number
  readonly removed: number
  /** Why routes are missing: one reason for each cause. */
  readonly faults: readonly string[]
}

/** Maintains the main table's routes with `ROUTE_PROTOCOL`. Reports a fault if another program's route prevents one. */
export class RouteTable {
  /** The planned gateway of each range in the last pass. Undefined if the next pass must list the table. */
  #present: Map<string, string | undefined> | undefined
  /** The reason why a route is missing, by range. */
  readonly #failed = new Map<string, string>()

  /** Makes the next pass list the table, which takes half a second for 10,000 routes. */
  forget(): void {
    this.#present = undefined
  }

  /** Compares the plan with the last pass or the table, and sends all changes in one batch. Throws `NetlinkError`. */
  sync(route: NetlinkSocket, plan: RoutePlan): RoutePass {
    const present = this.#present ? knownRoutes(this.#present) : listedRoutes(route)
    if (!this.#present) this.#failed.clear()
    this.#present = undefined // until the update has succeeded
    const { removed, added } = changesFor(plan, present)
    const requests = [
      ...removed.map(toRemove),
      ...added.map((one) => ({ ...toAddRoute(specOf(one), "add"), route: one })),
    ]
    for (const { range } of removed) this.#failed.delete(range)
    const faults = new Set(plan.faults)
    let [isRemoved, isAdded] = [removed.length, added.length]
    for (const { request, error } of executeAll(route, requests)) {
      if (request.route === undefined) {
        isRemoved--
        if (error.errno !== "ESRCH") faults.add(`Cannot ${error.message}`)
      } else {
        isAdded--
        this.#failed.set(request.route.range, reasonOf(request.route, error))
      }
    }
    for (const fault of this.#failed.values()) faults.add(fault)
    // If unplanned routes stay, only the table contains them, so the next pass must list it.
    if (!plan.keepsOthers)
      this.#present = new Map(Array.from(plan.wanted.values(), ({ range, gateway }) => [range, gateway]))
    return { added: isAdded, removed: isRemoved, faults: [...faults] }
  }
}

function listedRoutes(route: NetlinkSocket): PresentRoute[] {
  return presentIn(listRoutes(route, undefined, { table: RT_TABLE_MAIN, protocol: ROUTE_PROTOCOL }))
}

function* knownRoutes(present: ReadonlyMap<string, string | undefined>): Generator<PresentRoute> {
  for (const [range, gateway] of present) yield { range, gateway }
}

function toRemove(present: PresentRoute) {
  const asAdded = { table: RT_TABLE_MAIN, scope: 0, flags: 0, type: RTN_UNICAST }
  return { ...toDeleteListedRoute(present.listed ?? { ...asAdded, ...specOf(present) }), route: undefined }
}

function specOf({ range, gateway }: { readonly range: string; readonly gateway?: string | undefined }) {
  const cidr = parseCidr(range)
  if (cidr === undefined) throw new TypeError(`${range} is not a range`)
  const to = { dst: cidr.ip, prefix: cidr.prefix, protocol: ROUTE_PROTOCOL }
  const ip = gateway === undefined ? undefined : parseIp(gateway)
  return ip ? { ...to, gateway: ip } : { ...to, type: RTN_UNREACHABLE, priority: UNREACHABLE_METRIC }
}

function reasonOf({ range, gateway, node }: RangeRoute, error: NetlinkError): string {
  const family = familyName(range)
  const way = gateway ? ` via ${gateway}` : ""
  const what = `Cannot route to the ${family} range ${range} of node "${node}"${way}`
  const { errno, message } = error
  if (errno === "EEXIST") return `${what}: another route to it exists; "ip route show ${range}" shows it`
  if (["ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "ENODEV"].includes(errno))
    return `${what}: this node has no active link to that address (${errno})`
  if (isNoFamily(error)) return `${what}: the kernel has no ${family}`
  return `${what}: ${message}`
}
