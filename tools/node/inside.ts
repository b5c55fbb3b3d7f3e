import { isErrno, readTextFile, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  type Address,
  askRoute,
  Budget,
  type Link,
  type ListedRoute,
  listAddresses,
  listLinks,
  listNeighbours,
  listRoutes,
  listRules,
  type Neighbour,
  type RouteRefusal,
  RouteSocket,
  RT_TABLE_MAIN,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Netfilter, openNetfilter } from "../../pkg/nftables/mod.ts"
import { findSysctl } from "../../pkg/sysctl/mod.ts"
import { type Family, messageOf, parseCidr } from "../../pkg/types/mod.ts"
import type { NodeAttachment } from "./attachments.ts"
import { foreign } from "./foreign.ts"
import { type FilterView, readBaseChains } from "./packet-filter.ts"

/** The namespace of one or more attachments, as it is now. A list is undefined where it is too long to be read whole. */
export interface Inside {
  readonly path: string
  /** The inode of the namespace: two paths may lead to one. */
  readonly inode: bigint
  readonly links: readonly Link[] | undefined
  readonly addresses: readonly Address[] | undefined
  readonly rules: readonly Rule[] | undefined
  /** Of the main table, and of all tables where rules lead to others. */
  readonly routes: readonly ListedRoute[] | undefined
  readonly neighbours: readonly Neighbour[] | undefined
  /** How the namespace sends to the addresses that its attachments have, by these as the attachments have them. */
  readonly routesTo: ReadonlyMap<string, ListedRoute | RouteRefusal>
  /** The base chains of its own packet filter with their own rules; undefined where it has none, or it may not be read. */
  readonly filter: FilterView | undefined
  /** The values below /proc/sys that were asked for, by path; those that the kernel has. */
  readonly settings: ReadonlyMap<string, string>
  /** The lists that were not read whole. */
  readonly notWhole: readonly string[]
}

/** A namespace that could not be looked into, and why. */
export interface NotInside {
  readonly path: string
  readonly reason: string
}

/**
 * The datagrams that are read of one namespace, of up to 32 KiB each: some 20 links or 400 routes. A usual container has its
 * lists in a score of them, and what a container multiplies does not hold up the others.
 */
const DATAGRAMS = 128

/**
 * Reads links, addresses, rules, routes and neighbours of a namespace, like `ip -n` and `nft list chains`; `undefined`
 * when it no longer exists, or is the thread's own. Never throws: unreadable parts are reported in the result.
 */
function readInside(
  path: string,
  own: bigint,
  { settings, addresses }: { settings: Iterable<string>; addresses: Iterable<string> },
  known: Map<string, Rule>,
): Inside | NotInside | undefined {
  try {
    using sandbox = Netns.find(path)
    const inode = sandbox?.inode
    if (sandbox === undefined || inode === undefined || inode === own) return undefined
    const entered = sandbox.run(() => ({
      values: readSettings(settings),
      route: RouteSocket.open(new Budget(0, DATAGRAMS)),
      filter: unlessErrno(() => openNetfilter(new Budget(0, DATAGRAMS)), "EPROTONOSUPPORT", "EAFNOSUPPORT"),
    }))
    using route = entered.route
    using filter = entered.filter
    return {
      path,
      inode,
      ...readLists({ route, filter }, known),
      routesTo: routesTo(route, addresses),
      settings: entered.values,
    }
  } catch (error) {
    return { path, reason: messageOf(error) }
  }
}

/**
 * The namespaces of the attachments whose containers live, each once, by their paths; of each the settings below /proc/sys that
 * `settingsOf` names for its attachments.
 */
export function readInsides(
  attachments: readonly NodeAttachment[],
  settingsOf: (one: NodeAttachment) => readonly string[],
): Map<string, Inside | NotInside> {
  using own = Netns.own()
  const { inode } = own
  const living = attachments.filter(({ isAlive }) => isAlive !== false)
  const known = new Map<string, Rule>()
  const byPath = Map.groupBy(living, ({ netns }) => netns)
  return new Map(
    [...byPath].flatMap(([path, ofPath]) => {
      if (path === undefined) return []
      const asked = {
        settings: new Set(ofPath.flatMap(settingsOf)),
        addresses: new Set(ofPath.flatMap((one) => one.addresses)),
      }
      const inside = readInside(path, inode, asked, known)
      return inside ? [[path, inside] as const] : []
    }),
  )
}

function readSettings(paths: Iterable<string>): Map<string, string> {
  return new Map(
    [...paths].flatMap((path) => {
      const value = findSysctl(path)
      return value === undefined ? [] : [[path, value] as const]
    }),
  )
}

function routesTo(route: RouteSocket, addresses: Iterable<string>): Inside["routesTo"] {
  return new Map(
    [...addresses].flatMap((text) => {
      const cidr = parseCidr(text)
      return cidr ? [[text, askRoute(route, { dst: cidr.ip })] as const] : []
    }),
  )
}

function readLists(
  { route, filter }: { route: RouteSocket; filter: Netfilter | undefined },
  known: Map<string, Rule>,
): Omit<Inside, "path" | "inode" | "settings" | "routesTo"> {
  const notWhole: string[] = []
  const whole = <T>(what: string, list: () => T): T | undefined => {
    try {
      return list()
    } catch (error) {
      if (!isErrno(error, "ETIME")) throw error
      notWhole.push(what)
      return undefined
    }
  }
  const links = whole("links", () => listLinks(route).map(named))
  const addresses = whole("addresses", () => listAddresses(route))
  const rules = whole("rules", () => listRules(route, undefined, { known }))
  const ofMain = rules?.every(isUsual) ? { table: RT_TABLE_MAIN } : {}
  const routes = whole("routes", () => listRoutes(route, undefined, ofMain))
  const neighbours = whole("neighbours", () => listNeighbours(route))
  const chains = filter && whole("rules of the packet filter", () => unlessErrno(() => readBaseChains(filter), "EPERM"))
  return { links, addresses, rules, routes, neighbours, filter: chains, notWhole }
}

/** The link with a name that can be shown: the container has chosen it. */
function named(link: Link): Link {
  const name = foreign(link.name)
  return name === link.name ? link : { ...link, name }
}

/** The priorities of the rules that every namespace begins with: local, main, default. */
const usual: ReadonlyMap<number, number> = new Map([
  [0, 255],
  [32766, 254],
  [32767, 253],
])

/** The families that have rules, but no rule for the main table, as after `ip rule flush`. */
export function familiesWithoutMain(rules: readonly Rule[]): Family[] {
  const families = [...new Set(rules.map(({ family }) => family))]
  return families.filter((family) => !rules.some((rule) => rule.family === family && rule.table === RT_TABLE_MAIN))
}

/** Whether a rule is one of those that every namespace begins with. */
export function isUsual({ priority = 0, table, src, dst, inputInterface, outputInterface, mark }: Rule): boolean {
  return usual.get(priority) === table && !src && !dst && !inputInterface && !outputInterface && !mark
}

/**
 * Whether a program in a namespace takes all frames of an interface by a packet socket, as gVisor and machines in a container do,
 * which keep the interface's addresses for themselves. False where it cannot be read.
 */
export function takesFrames(path: string, index: number): boolean {
  try {
    using sandbox = Netns.open(path)
    const rows = sandbox
      .run(() => readTextFile("/proc/thread-self/net/packet"))
      .trim()
      .split("\n")
      .slice(1)
    return rows.some((row) => Number(row.trim().split(/\s+/)[4]) === index) // sk RefCnt Type Proto Iface R Rmem User Inode
  } catch {
    return false
  }
}
