import { unlessErrno } from "../../pkg/libc/mod.ts"
import {
  Budget,
  type FixedEntry,
  findForwardingEntry,
  type Ifindex,
  type ListedRoute,
  listAddresses,
  listFixedEntries,
  listNeighbours,
  listNeighbourTables,
  listRoutes,
  listRules,
  type Neighbour,
  NeighbourState,
  type NeighbourTable,
  type RouteRefusal,
  RouteSocket,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, AF_INET6, type Family, familyOf, formatIp } from "../../pkg/types/mod.ts"
import { familiesWithoutMain, isUsual, TOLD_NEIGHBOURS } from "./inside.ts"
import { type HostIpsec, readHostIpsec } from "./ipsec.ts"
import type { NodeLink } from "./links.ts"
import { askOwnRoute, newWait } from "./own-routes.ts"

/** The host's routing toward containers, according to all of its tables and rules. */
export interface HostTables {
  /** The rules other than the three default rules of every namespace. */
  readonly rules: readonly Rule[]
  /** The families in which no policy rule looks up the main table. */
  readonly withoutMain: readonly Family[]
  /** The routes of the tables that these rules look up. */
  readonly routes: readonly ListedRoute[]
  /** Permanent entries, and entries of neighbors that did not answer. */
  readonly neighbours: readonly Neighbour[]
  /** The kernel's route to each address, or the reason why it has no route. */
  readonly routesTo: ReadonlyMap<string, ListedRoute | RouteRefusal>
  /** The indexes of bridges that do not accept frames for their own MAC. */
  readonly deafBridges: ReadonlySet<number>
  /** Entries of forwarding databases that do not age, by bridge index. Lacks databases that are too long to read. */
  readonly fixedEntries: ReadonlyMap<number, readonly FixedEntry[]>
  /** The limits of the neighbor tables, which all namespaces share, and whether they were reached. */
  readonly neighbourTables: readonly NeighbourTable[]
  /** The number of the host's own neighbor entries that count toward the limit, all but permanent ones, by family. */
  readonly countedNeighbours: ReadonlyMap<Family, number>
  readonly ipsec: HostIpsec
}

const FAMILIES: readonly Family[] = [AF_INET, AF_INET6]

/**
 * Reads the host's rules, routes, neighbors and IPsec state, its routes to `addresses`, and the forwarding databases of
 * `bridges`. Throws `NetlinkError`.
 */
export function readHostTables(addresses: readonly Uint8Array[], bridges: readonly NodeLink[]): HostTables {
  using host = RouteSocket.open()
  const all = listRules(host, undefined)
  const rules = all.filter((rule) => !isUsual(rule))
  const tables = new Map(rules.map(({ family, table }) => [`${family} ${table}`, { family, table }]))
  const routesTo = new Map<string, ListedRoute | RouteRefusal>()
  const [own, wait] = [listAddresses(host), newWait()]
  for (const dst of addresses) routesTo.getOrInsertComputed(formatIp(dst), () => askOwnRoute(host, dst, own, wait))
  const neighbours = listNeighbours(host)
  return {
    rules,
    withoutMain: familiesWithoutMain(all),
    routes: [...tables.values()].flatMap(({ family, table }) => (table > 0 ? listRoutes(host, family, { table }) : [])),
    neighbours: neighbours.filter(({ state }) => (state & TOLD_NEIGHBOURS) !== 0),
    routesTo,
    deafBridges: new Set(bridges.filter((bridge) => isDeaf(host, bridge)).map(({ index }) => index)),
    fixedEntries: new Map(bridges.map((bridge) => [bridge.index, fixedEntriesOf(bridge)])),
    neighbourTables: listNeighbourTables(host),
    countedNeighbours: new Map(FAMILIES.map((family) => [family, countedOf(neighbours, family)])),
    ipsec: readHostIpsec(),
  }
}

/** Returns the number of entries that count toward the limit; permanent ones do not: `neigh_alloc`, neighbour.c. */
export function countedOf(neighbours: readonly Neighbour[], family: Family): number {
  return neighbours.filter(({ ip, state }) => familyOf(ip) === family && !(state & NeighbourState.Permanent)).length
}

/** Reports whether a bridge's database lacks its own local MAC. False before kernel 5.0, which lacks the request. */
function isDeaf(host: RouteSocket, { index, name, mac }: NodeLink): boolean {
  const entry = unlessErrno(
    () => findForwardingEntry(host, { index: index as Ifindex, name }, mac) ?? "unknown",
    "EOPNOTSUPP",
    "ENODEV",
    "EINVAL",
  )
  return entry === "unknown" || entry?.isLocal === false
}

/** The maximum number of datagrams from one forwarding database, to which a container can add entries. */
const DATAGRAMS = 64

function fixedEntriesOf({ index, name }: NodeLink): FixedEntry[] {
  using own = RouteSocket.open(new Budget(0, DATAGRAMS))
  return (
    unlessErrno(
      () => listFixedEntries(own, { index: index as Ifindex, name }),
      "ETIME",
      "EOPNOTSUPP",
      "ENODEV",
      "EINVAL",
    ) ?? []
  )
}
