import { unlessErrno } from "../../pkg/libc/mod.ts"
import {
  askRoute,
  Budget,
  type FixedEntry,
  findForwardingEntry,
  type Ifindex,
  type ListedRoute,
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
import { familiesWithoutMain, isUsual } from "./inside.ts"
import { type HostIpsec, readHostIpsec } from "./ipsec.ts"
import type { NodeLink } from "./links.ts"

/** How the host sends to containers, by all tables and rules. */
export interface HostTables {
  /** Those beside the three that every namespace begins with. */
  readonly rules: readonly Rule[]
  /** The families in which no rule looks up the main table. */
  readonly withoutMain: readonly Family[]
  /** The routes of the tables that these look up. */
  readonly routes: readonly ListedRoute[]
  /** The entries that were set by hand, and those of neighbours that have not answered. */
  readonly neighbours: readonly Neighbour[]
  /** The kernel's answer for each address, or why it sends nothing there. */
  readonly routesTo: ReadonlyMap<string, ListedRoute | RouteRefusal>
  /** The bridges that do not take frames for their own MAC, by their indexes. */
  readonly deafBridges: ReadonlySet<number>
  /**
   * The entries of these bridges' forwarding databases that do not age, by the bridges' indexes; empty for a database
   * that is too long to read.
   */
  readonly fixedEntries: ReadonlyMap<number, readonly FixedEntry[]>
  /** The limits of the tables of neighbours, which are one for all namespaces, and whether they were reached. */
  readonly neighbourTables: readonly NeighbourTable[]
  /** The host's own entries in them that count for the limit, by family: not those that were set by hand. */
  readonly countedNeighbours: ReadonlyMap<Family, number>
  readonly ipsec: HostIpsec
}

const FAMILIES: readonly Family[] = [AF_INET, AF_INET6]

/** The states of neighbours that are told. */
const TOLD = NeighbourState.Permanent | NeighbourState.Failed

/** Asks the kernel for the host's route to each of the addresses, and of each bridge whether it knows itself, once. Throws `NetlinkError`. */
export function readHostTables(addresses: readonly Uint8Array[], bridges: readonly NodeLink[]): HostTables {
  using host = RouteSocket.open()
  const all = listRules(host, undefined)
  const rules = all.filter((rule) => !isUsual(rule))
  const tables = new Map(rules.map(({ family, table }) => [`${family} ${table}`, { family, table }]))
  const routesTo = new Map<string, ListedRoute | RouteRefusal>()
  for (const dst of addresses) routesTo.getOrInsertComputed(formatIp(dst), () => askRoute(host, { dst }))
  const neighbours = listNeighbours(host)
  return {
    rules,
    withoutMain: familiesWithoutMain(all),
    routes: [...tables.values()].flatMap(({ family, table }) => (table > 0 ? listRoutes(host, family, { table }) : [])),
    neighbours: neighbours.filter(({ state }) => (state & TOLD) !== 0),
    routesTo,
    deafBridges: new Set(bridges.filter((bridge) => isDeaf(host, bridge)).map(({ index }) => index)),
    fixedEntries: new Map(bridges.map((bridge) => [bridge.index, fixedEntriesOf(bridge)])),
    neighbourTables: listNeighbourTables(host),
    countedNeighbours: new Map(FAMILIES.map((family) => [family, countedOf(neighbours, family)])),
    ipsec: readHostIpsec(),
  }
}

/** How many entries count for the limit of the kernel's table: `neigh_alloc` in net/core/neighbour.c leaves permanent ones out. */
export function countedOf(neighbours: readonly Neighbour[], family: Family): number {
  return neighbours.filter(({ ip, state }) => familyOf(ip) === family && !(state & NeighbourState.Permanent)).length
}

/** Whether a bridge's forwarding database does not know its own MAC for the host's; of kernels before 5.0 that cannot be asked. */
function isDeaf(host: RouteSocket, { index, name, mac }: NodeLink): boolean {
  const entry = unlessErrno(
    () => findForwardingEntry(host, { index: index as Ifindex, name }, mac) ?? "unknown",
    "EOPNOTSUPP",
    "ENODEV",
    "EINVAL",
  )
  return entry === "unknown" || entry?.isLocal === false
}

/** The datagrams that are read of one forwarding database, which containers make longer by the MACs that they send from. */
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
