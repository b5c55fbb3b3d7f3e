import { mismatch } from "../../pkg/ip/mod.ts"
import { unlessErrno } from "../../pkg/libc/mod.ts"
import { findLink, findRoute, listLinks, type NetlinkSocket, RouteSocket, text } from "../../pkg/netlink/mod.ts"
import {
  add,
  atomically,
  commit,
  findElements,
  flush,
  getElement,
  hasRules,
  ifnameValue,
  type NamedSet,
  type Operation,
  remove,
} from "../../pkg/nftables/mod.ts"
import { findSysctl, tryWriteSysctl, writeSysctl } from "../../pkg/sysctl/mod.ts"
import { AF_INET, CniError, Code, familyOf } from "../../pkg/types/mod.ts"
import { isLoopback, type MappedAddress } from "./mapping.ts"
import { LOCALNET_LINKS, type TableLayout, tableLayout } from "./nftables/table.ts"

/** The host's interface towards a container. */
export interface HostLink {
  name: string
  /** Whether it outlives the container, as a bridge does and one end of a pair does not. */
  isShared: boolean
}

/**
 * The interface that needs `route_localnet`: towards the container, by the route to it, when something is mapped that
 * 127.0.0.1 reaches. Undefined when nothing is, or there is no route. Throws `NetlinkError`.
 */
export function findLocalnetLink(addresses: readonly MappedAddress[], opened?: RouteSocket): HostLink | undefined {
  const ipv4 = addressNeedingLocalnet(addresses)
  if (!ipv4) return undefined
  using own = opened ? undefined : RouteSocket.open()
  const host = opened ?? (own as RouteSocket)
  const index = findRoute(host, ipv4.address.ip)?.index
  const link = index === undefined ? undefined : findLink(host, index)
  if (!link || link.name === "lo") return undefined
  return { name: link.name, isShared: link.kind !== "veth" && link.kind !== "tun" }
}

/** The address to which something is mapped that 127.0.0.1 reaches; undefined when nothing is. */
export function addressNeedingLocalnet(addresses: readonly MappedAddress[]): MappedAddress | undefined {
  const ipv4 = addresses.find(({ family }) => family === AF_INET)
  return ipv4?.mappings.some(({ hostIp }) => hostIp === undefined || isLoopback(hostIp)) ? ipv4 : undefined
}

function settingOf(link: string): string {
  return `net/ipv4/conf/${link}/route_localnet`
}

/** Whether packets from and to 127.0.0.0/8 may pass the interface. */
export function isLocalnetOn(link: string): boolean {
  return isLocalnetOnLink(link) || isLocalnetOnLink("all")
}

/** Whether route_localnet is on for the link; false if the link is deleted. */
function isLocalnetOnLink(link: string): boolean {
  return unlessErrno(() => findSysctl(settingOf(link)), "ENOENT") === "1"
}

/** Switches it on, like `sysctl -w net.ipv4.conf.LINK.route_localnet=1`. Throws `CniError`. */
export function switchLocalnetOn(link: string): void {
  try {
    writeSysctl(settingOf(link), "1")
  } catch (cause) {
    const what = `Cannot let 127.0.0.1 reach the container: "${settingOf(link)}" cannot be set`
    throw new CniError(Code.Internal, what, { cause, details: `${cause}; with "snat": false it is not needed` })
  }
}

/** Throws `CniError` when it is off. */
export function checkLocalnet(link: string): void {
  if (!isLocalnetOn(link)) throw mismatch(`sysctl "${settingOf(link)}"`, "1", "0")
}

/**
 * Switches interfaces off, for a table that is to go; and on again those of `before` that stay after all. Returns those that are
 * there and could not be switched off.
 */
export function switchLocalnetOff(links: readonly string[], before: readonly string[]): string[] {
  for (const link of before) if (!links.includes(link)) tryWriteSysctl(settingOf(link), "1")
  const refused = links.filter((link) => !tryWriteSysctl(settingOf(link), "0"))
  if (refused.length === 0) return []
  using host = RouteSocket.open()
  return refused.filter((link) => findLink(host, link))
}

/** The error for interfaces that are left on. */
export function localnetStays(links: readonly string[]): CniError {
  const what = links.map((link) => `"${settingOf(link)}"`).join(", ")
  return new CniError(Code.Internal, `Cannot switch off ${what}: /proc/sys cannot be written`, {
    details: "what it would let in is kept out as before; the next DEL or GC tries again",
  })
}

/** An element of one of the two sets of the table that record the setting. */
export interface LocalnetEntry {
  set: NamedSet
  link: string
}

/**
 * What is to be recorded about an interface that needs `route_localnet`, as it is now: that it is off; or that it is on, if
 * nothing tells who has switched it on. Undefined when that is known: it stands in the table, or it is on for all
 * interfaces, which portmap never does. Throws `NetlinkError`.
 */
export function missingLocalnetEntry(
  socket: Pick<NetlinkSocket, "get">,
  { localnetLinks, localnetGuarded }: TableLayout,
  link: string | undefined,
): LocalnetEntry | undefined {
  if (link === undefined || !localnetLinks || !localnetGuarded) return undefined
  if (!isLocalnetOnLink(link)) return isLocalnetOnLink("all") ? undefined : { set: localnetLinks, link }
  const isKnown = [localnetLinks, localnetGuarded].some((set) => getElement(socket, set, [ifnameValue(link)]))
  return isKnown ? undefined : { set: localnetGuarded, link }
}

/** The same, but undefined for an entry that is in the table. Throws `NetlinkError`. */
export function unrecordedLocalnetEntry(
  socket: Pick<NetlinkSocket, "get">,
  layout: TableLayout,
  link: string | undefined,
): LocalnetEntry | undefined {
  const entry = missingLocalnetEntry(socket, layout, link)
  return entry && getElement(socket, entry.set, [ifnameValue(entry.link)]) ? undefined : entry
}

/** Adds an entry, with the set that it needs. */
export function addLocalnetEntry({ set, link }: LocalnetEntry): Operation[] {
  return [add.set(set), add.elements(set, [elementOf(link)])]
}

/**
 * Takes an entry back. Where the setting was off and was switched on since, the entry stays, and it goes off with
 * the last mapping. Throws `NetlinkError`.
 */
export function undoLocalnetEntry(socket: NetlinkSocket, { set, link }: LocalnetEntry): void {
  if (set.name === LOCALNET_LINKS && isLocalnetOn(link)) return
  unlessErrno(() => commit(socket, [remove.elements(set, [elementOf(link)])]), "ENOENT")
}

function addGuards({ table, guards }: TableLayout): Operation[] {
  const chains = new Set(guards.map(({ chain }) => chain))
  return [
    add.table(table),
    ...Array.from(chains, add.chain),
    ...Array.from(chains, flush.chain),
    ...guards.map(add.rule),
  ]
}

/**
 * Adds the guards by themselves, for mappings of iptables that switch the setting on for an interface, and records it; doing it
 * again changes nothing. Records of deleted interfaces are removed. Returns what was recorded. Throws `NetlinkError`.
 */
export function guardLocalnet(socket: NetlinkSocket, link: string): LocalnetEntry[] {
  const layout = tableLayout(AF_INET)
  const { table, guards, localnetLinks } = layout
  let made: LocalnetEntry[] = []
  atomically(socket, () => {
    const isGuarded = hasRules(socket, table, guards)
    const entry = missingLocalnetEntry(socket, layout, link)
    made = entry ? [entry] : []
    const gone = readLocalnetRecord(socket, layout).links.filter((name) => findSysctl(settingOf(name)) === undefined)
    const stale = localnetLinks && gone.length > 0 ? [remove.elements(localnetLinks, gone.map(elementOf))] : []
    return [...(isGuarded ? [] : addGuards(layout)), ...stale, ...made.flatMap(addLocalnetEntry)]
  })
  return made
}

/**
 * Returns the interfaces that have the setting on: of those towards these addresses, or of all where none are told. Throws `NetlinkError`.
 */
export function findOpenLinks(addresses: readonly Uint8Array[]): string[] {
  using host = RouteSocket.open()
  const leadingTo = (ip: Uint8Array) => {
    const index = familyOf(ip) === AF_INET ? findRoute(host, ip)?.index : undefined
    return index === undefined ? undefined : findLink(host, index)?.name
  }
  const names = addresses.length > 0 ? addresses.map(leadingTo) : listLinks(host).map(({ name }) => name)
  return [...new Set(names)].filter((name) => name !== undefined && name !== "lo" && isLocalnetOnLink(name)) as string[]
}

/** Returns those of these interfaces, or of all where none are told, that have the setting on. Throws `NetlinkError`. */
export function openLinksAmong(names: readonly string[] | undefined): string[] {
  if (names) return names.filter(isLocalnetOnLink)
  return findOpenLinks([])
}

function elementOf(link: string) {
  return { key: [ifnameValue(link)] }
}

/** Which interfaces are recorded. */
export interface LocalnetRecord {
  /** Of `localnet_links`: it was off before, and goes off with the last mapping. */
  links: readonly string[]
  /** Of `localnet_guarded`: it was on before, and still is. */
  guarded: readonly string[]
}

/** Reads the record; none where there is no table. Throws `NetlinkError`. */
export function readLocalnetRecord(
  socket: Pick<NetlinkSocket, "dump">,
  { localnetLinks, localnetGuarded }: TableLayout,
): LocalnetRecord {
  const namesIn = (set: NamedSet | undefined) =>
    ((set && findElements(socket, set))?.elements ?? []).flatMap(({ key: [name] }) => (name ? text.decode(name) : []))
  return { links: namesIn(localnetLinks), guarded: namesIn(localnetGuarded).filter(isLocalnetOnLink) }
}

/** The table with nothing but the guards, and the record of what they are there for. */
export function guardOnly(layout: TableLayout, { links, guarded }: LocalnetRecord): Operation[] {
  const { localnetLinks, localnetGuarded } = layout
  if (!localnetLinks || !localnetGuarded) return []
  return [
    ...addGuards(layout),
    ...links.flatMap((link) => addLocalnetEntry({ set: localnetLinks, link })),
    ...guarded.flatMap((link) => addLocalnetEntry({ set: localnetGuarded, link })),
  ]
}
