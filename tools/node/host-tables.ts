import {
  askRoute,
  type ListedRoute,
  listNeighbours,
  listRoutes,
  listRules,
  type Neighbour,
  NeighbourState,
  type RouteRefusal,
  RouteSocket,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { type Family, formatIp } from "../../pkg/types/mod.ts"
import { familiesWithoutMain, isUsual } from "./inside.ts"

/** How the host sends to containers, by all tables and rules. */
export interface HostTables {
  /** Those beside the three that every namespace begins with. */
  readonly rules: readonly Rule[]
  /** The families in which no rule looks up the main table. */
  readonly withoutMain: readonly Family[]
  /** The routes of the tables that these look up. */
  readonly routes: readonly ListedRoute[]
  /** The entries that were set by hand. */
  readonly neighbours: readonly Neighbour[]
  /** The kernel's answer for each address, or why it sends nothing there. */
  readonly routesTo: ReadonlyMap<string, ListedRoute | RouteRefusal>
}

/** Asks the kernel for the host's route to each of the addresses, once for each. Throws `NetlinkError`. */
export function readHostTables(addresses: readonly Uint8Array[]): HostTables {
  using host = RouteSocket.open()
  const all = listRules(host, undefined)
  const rules = all.filter((rule) => !isUsual(rule))
  const tables = new Map(rules.map(({ family, table }) => [`${family} ${table}`, { family, table }]))
  const routesTo = new Map<string, ListedRoute | RouteRefusal>()
  for (const dst of addresses) routesTo.getOrInsertComputed(formatIp(dst), () => askRoute(host, { dst }))
  return {
    rules,
    withoutMain: familiesWithoutMain(all),
    routes: [...tables.values()].flatMap(({ family, table }) => (table > 0 ? listRoutes(host, family, { table }) : [])),
    neighbours: listNeighbours(host).filter(isPermanent),
    routesTo,
  }
}

function isPermanent({ state }: Neighbour): boolean {
  return (state & NeighbourState.Permanent) !== 0
}
