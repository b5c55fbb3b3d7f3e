import { unlessErrno } from "../../../pkg/libc/mod.ts"
import { type NetlinkSocket, text } from "../../../pkg/netlink/mod.ts"
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
} from "../../../pkg/nftables/mod.ts"
import { AF_INET } from "../../../pkg/types/mod.ts"
import { hasLocalnetSetting, isLocalnetOn, isLocalnetOnLink } from "../route-localnet.ts"
import { canMapPorts, LOCALNET_LINKS, type TableLayout, tableLayout } from "./table.ts"

/** An element of one of the two sets of the table that record the setting. */
export interface LocalnetEntry {
  set: NamedSet
  link: string
}

/**
 * Returns the record to add for an interface that needs `route_localnet`: that the setting is off; or that it is on, if
 * it is unknown who has switched it on. Undefined if that is known: the table has a record, or the setting is on for
 * all interfaces, which portmap never does. Throws `NetlinkError`.
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

/** Returns the same, but undefined for an entry that the table has. Throws `NetlinkError`. */
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
 * Undoes an entry. If the setting was off and has been enabled since, the entry stays, and the last mapping's DEL
 * disables the setting. Throws `NetlinkError`.
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
 * Adds the guards alone, for mappings of iptables that switch the setting on for an interface, and records it. A
 * repeated call changes nothing. Removes records of deleted interfaces. Returns the new records; none on a kernel that
 * cannot guard. Throws `NetlinkError`.
 */
export function guardLocalnet(socket: NetlinkSocket, link: string): LocalnetEntry[] {
  const layout = tableLayout(AF_INET)
  const { table, guards, localnetLinks } = layout
  let made: LocalnetEntry[] = []
  if (!canMapPorts(socket, AF_INET)) return made
  atomically(socket, () => {
    const isGuarded = hasRules(socket, table, guards)
    const entry = missingLocalnetEntry(socket, layout, link)
    made = entry ? [entry] : []
    const gone = readLocalnetRecord(socket, layout).links.filter((name) => !hasLocalnetSetting(name))
    const stale = localnetLinks && gone.length > 0 ? [remove.elements(localnetLinks, gone.map(elementOf))] : []
    return [...(isGuarded ? [] : addGuards(layout)), ...stale, ...made.flatMap(addLocalnetEntry)]
  })
  return made
}

/**
 * Returns whether the guard is in place, or cannot be added: a kernel may have a part of nf_tables. Throws
 * `NetlinkError`.
 */
export function isClosed(socket: NetlinkSocket): boolean {
  const { table, guards, raw } = tableLayout(AF_INET)
  return hasRules(socket, table, guards, raw.name) || !canMapPorts(socket, AF_INET)
}

/** Returns whether the guard is in place with a record of this interface, or cannot be added. Throws `NetlinkError`. */
export function isGuarded(socket: NetlinkSocket, link: string): boolean {
  return unrecordedLocalnetEntry(socket, tableLayout(AF_INET), link) === undefined && isClosed(socket)
}

/**
 * Restores the guard after a flush, for interfaces whose setting is on. Returns whether it was missing. Throws
 * `NetlinkError`.
 */
export function restoreGuard(socket: NetlinkSocket, open: readonly string[]): boolean {
  if (open.length === 0 || isClosed(socket)) return false
  for (const link of open) guardLocalnet(socket, link)
  return true
}

function elementOf(link: string) {
  return { key: [ifnameValue(link)] }
}

/** Which interfaces are recorded. */
export interface LocalnetRecord {
  /** In `localnet_links`: it was off before, and is switched off with the last mapping. */
  links: readonly string[]
  /** In `localnet_guarded`: it was on before, and still is. */
  guarded: readonly string[]
}

/** Reads the record; empty without a table. Throws `NetlinkError`. */
export function readLocalnetRecord(
  socket: Pick<NetlinkSocket, "dump">,
  { localnetLinks, localnetGuarded }: TableLayout,
): LocalnetRecord {
  const namesIn = (set: NamedSet | undefined) =>
    ((set && findElements(socket, set))?.elements ?? []).flatMap(({ key: [name] }) => (name ? text.decode(name) : []))
  return { links: namesIn(localnetLinks), guarded: namesIn(localnetGuarded).filter(isLocalnetOnLink) }
}

/** Adds the table with only the guards and the record of their interfaces. */
export function guardOnly(layout: TableLayout, { links, guarded }: LocalnetRecord): Operation[] {
  const { localnetLinks, localnetGuarded } = layout
  if (!localnetLinks || !localnetGuarded) return []
  return [
    ...addGuards(layout),
    ...links.flatMap((link) => addLocalnetEntry({ set: localnetLinks, link })),
    ...guarded.flatMap((link) => addLocalnetEntry({ set: localnetGuarded, link })),
  ]
}
