import { isErrno, readTextFile, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  type Address,
  type BriefLink,
  Budget,
  type ListedRoute,
  listAddresses,
  listBriefLinks,
  listNeighbours,
  listRoutes,
  listRules,
  type Neighbour,
  NeighbourState,
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
import { askOwnRoute, newWait, type Wait } from "./own-routes.ts"
import { type FilterView, readBaseChains } from "./packet-filter.ts"

/** The present state of a namespace with one or more attachments. A list is undefined if it was too long to read. */
export interface Inside {
  readonly path: string
  /** The namespace's inode, by which two paths to the same namespace are recognized. */
  readonly inode: bigint
  readonly links: readonly BriefLink[] | undefined
  readonly addresses: readonly Address[] | undefined
  readonly rules: readonly Rule[] | undefined
  /** Routes of the main table, or of all tables if policy rules look up other tables. */
  readonly routes: readonly ListedRoute[] | undefined
  /** Permanent entries, and entries of neighbors that did not answer. */
  readonly neighbours: readonly Neighbour[] | undefined
  /** The namespace's routes to its own addresses, by the text of the address in the attachments. */
  readonly routesTo: ReadonlyMap<string, ListedRoute | RouteRefusal>
  /** The base chains of the namespace's packet filter, with their rules. Undefined if none exist, or if unreadable. */
  readonly filter: FilterView | undefined
  /** The requested values below /proc/sys, by path. Lacks values that the kernel does not have. */
  readonly settings: ReadonlyMap<string, string>
  /** The names of the lists that were too long to read. */
  readonly notWhole: readonly string[]
}

/** A namespace that could not be read, and the reason. */
export interface NotInside {
  readonly path: string
  readonly reason: string
}

/**
 * The maximum number of datagrams to read from one namespace, so that one container's lists cannot delay the others.
 * Each has up to 32 KiB: about 20 links or 400 routes. A usual container needs about twenty.
 */
const DATAGRAMS = 128

/** The neighbor states that doctor evaluates. */
export const TOLD_NEIGHBOURS = NeighbourState.Permanent | NeighbourState.Failed

/**
 * Reads links, addresses, rules, routes and neighbors of a namespace, like `ip -n` and `nft list chains`. Returns
 * `undefined` if the namespace no longer exists or is the thread's own. Never throws: the result names unreadable
 * parts.
 */
function readInside(
  path: string,
  own: bigint,
  { settings, addresses }: { settings: Iterable<string>; addresses: Iterable<string> },
  known: Map<string, Rule>,
  wait: Wait,
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
    const lists = readLists({ route, filter }, known)
    const present = lists.addresses ?? []
    return { path, inode, ...lists, routesTo: routesTo(route, addresses, present, wait), settings: entered.values }
  } catch (error) {
    return { path, reason: messageOf(error) }
  }
}

/**
 * Reads the namespace of each living attachment once, and returns them by path. Also reads the settings below /proc/sys
 * that `settingsOf` returns for the attachments.
 */
export function readInsides(
  attachments: readonly NodeAttachment[],
  settingsOf: (one: NodeAttachment) => readonly string[],
): Map<string, Inside | NotInside> {
  using own = Netns.own()
  const { inode } = own
  const living = attachments.filter(({ isAlive }) => isAlive !== false)
  const known = new Map<string, Rule>()
  const wait = newWait()
  const byPath = Map.groupBy(living, ({ netns }) => netns)
  return new Map(
    [...byPath].flatMap(([path, ofPath]) => {
      if (path === undefined) return []
      const asked = {
        settings: new Set(ofPath.flatMap(settingsOf)),
        addresses: new Set(ofPath.flatMap((one) => one.addresses)),
      }
      const inside = readInside(path, inode, asked, known, wait)
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

function routesTo(
  route: RouteSocket,
  addresses: Iterable<string>,
  own: readonly Address[],
  wait: Wait,
): Inside["routesTo"] {
  return new Map(
    [...addresses].flatMap((text) => {
      const cidr = parseCidr(text)
      return cidr ? [[text, askOwnRoute(route, cidr.ip, own, wait)] as const] : []
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
  const links = whole("links", () => listBriefLinks(route).map(named))
  const addresses = whole("addresses", () => listAddresses(route))
  const rules = whole("rules", () => listRules(route, undefined, { known }))
  const ofMain = rules?.every(isUsual) ? { table: RT_TABLE_MAIN } : {}
  const routes = whole("routes", () => listRoutes(route, undefined, ofMain))
  const neighbours = whole("neighbours", () => listNeighbours(route, undefined, TOLD_NEIGHBOURS))
  const chains = filter && whole("rules of the packet filter", () => unlessErrno(() => readBaseChains(filter), "EPERM"))
  return { links, addresses, rules, routes, neighbours, filter: chains, notWhole }
}

/** Returns the link with its name escaped, because the container chose the name. */
function named(link: BriefLink): BriefLink {
  const name = foreign(link.name)
  return name === link.name ? link : { ...link, name }
}

/** The priorities and tables of the default rules of every namespace: local, main, default. */
const usual: ReadonlyMap<number, number> = new Map([
  [0, 255],
  [32766, 254],
  [32767, 253],
])

/** Returns the families that have rules, but no rule for the main table, as after `ip rule flush`. */
export function familiesWithoutMain(rules: readonly Rule[]): Family[] {
  const families = [...new Set(rules.map(({ family }) => family))]
  return families.filter((family) => !rules.some((rule) => rule.family === family && rule.table === RT_TABLE_MAIN))
}

/** Reports whether a rule is one of the default rules of every namespace. */
export function isUsual({ priority = 0, table, src, dst, inputInterface, outputInterface, mark }: Rule): boolean {
  return usual.get(priority) === table && !src && !dst && !inputInterface && !outputInterface && !mark
}

/**
 * Reports whether a program in a namespace reads all frames of an interface through a packet socket. gVisor and virtual
 * machines in containers do so, and use the interface's addresses themselves. False if unreadable.
 */
export function takesFrames(path: string, index: number): boolean {
  try {
    using sandbox = Netns.open(path)
    const rows = sandbox
      .run(() => readTextFile("/proc/thread-self/net/packet"))
      .trim()
      .split("\n")
      .slice(1)
    return rows.some((row) => Number(row.trim().split(/\s+/)[4]) === index) // the columns are sk, RefCnt, Type, Proto, Iface, R, Rmem, User, Inode
  } catch {
    return false
  }
}
