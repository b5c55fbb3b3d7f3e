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

/** A record of an interface in one of the two sets about `route_localnet`. */
export interface LocalnetEntry {
  set: NamedSet
  link: string
}

/**
 * Returns the record to add for an interface that needs `route_localnet`: in `localnet_links` if `route_localnet` is
 * disabled, or in `localnet_guarded` if an unknown program has enabled it. Returns undefined if the table already has a
 * record of an enabled interface, or if it is enabled for all interfaces, which portmap never does. Throws
 * `NetlinkError`.
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

/** Returns the result of `missingLocalnetEntry` unless the table already has that record. Throws `NetlinkError`. */
export function unrecordedLocalnetEntry(
  socket: Pick<NetlinkSocket, "get">,
  layout: TableLayout,
  link: string | undefined,
): LocalnetEntry | undefined {
  const entry = missingLocalnetEntry(socket, layout, link)
  return entry && getElement(socket, entry.set, [ifnameValue(entry.link)]) ? undefined : entry
}

/** Plans a record, and the set for it. */
export function addLocalnetEntry({ set, link }: LocalnetEntry): Operation[] {
  return [add.set(set), add.elements(set, [elementOf(link)])]
}

/**
 * Removes a record. If `route_localnet` was disabled and is enabled now, the record stays, and DEL of the last mapping
 * disables `route_localnet`. Throws `NetlinkError`.
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
 * Adds only the guards and the record of an interface, for mappings in iptables that enable `route_localnet`. A
 * repeated call changes nothing. Also removes records of deleted interfaces. Returns the new records; none if the
 * kernel cannot guard. Throws `NetlinkError`.
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

/** Reports whether the guard exists, or the kernel lacks parts of nf_tables for it. Throws `NetlinkError`. */
export function isClosed(socket: NetlinkSocket): boolean {
  const { table, guards, raw } = tableLayout(AF_INET)
  return hasRules(socket, table, guards, raw.name) || !canMapPorts(socket, AF_INET)
}

/** Reports whether the guard exists and the interface is recorded, or no guard is possible. Throws `NetlinkError`. */
export function isGuarded(socket: NetlinkSocket, link: string): boolean {
  return unrecordedLocalnetEntry(socket, tableLayout(AF_INET), link) === undefined && isClosed(socket)
}

/** Restores the guard unless `open` is empty. Returns whether it was missing. Throws `NetlinkError`. */
export function restoreGuard(socket: NetlinkSocket, open: readonly string[]): boolean {
  if (open.length === 0 || isClosed(socket)) return false
  for (const link of open) guardLocalnet(socket, link)
  return true
}

function elementOf(link: string) {
  return { key: [ifnameValue(link)] }
}

export interface LocalnetRecord {
  /** The interfaces in `localnet_links`: `route_localnet` was disabled before, and is again with the last mapping. */
  links: readonly string[]
  /** The interfaces in `localnet_guarded` whose `route_localnet` is still enabled, as it was before. */
  guarded: readonly string[]
}

/** Reads the records; none if the table does not exist. Throws `NetlinkError`. */
export function readLocalnetRecord(
  socket: Pick<NetlinkSocket, "dump">,
  { localnetLinks, localnetGuarded }: TableLayout,
): LocalnetRecord {
  const namesIn = (set: NamedSet | undefined) =>
    ((set && findElements(socket, set))?.elements ?? []).flatMap(({ key: [name] }) => (name ? text.decode(name) : []))
  return { links: namesIn(localnetLinks), guarded: namesIn(localnetGuarded).filter(isLocalnetOnLink) }
}

/** Plans a table with only the guards and the records. */
export function guardOnly(layout: TableLayout, { links, guarded }: LocalnetRecord): Operation[] {
  const { localnetLinks, localnetGuarded } = layout
  if (!localnetLinks || !localnetGuarded) return []
  return [
    ...addGuards(layout),
    ...links.flatMap((link) => addLocalnetEntry({ set: localnetLinks, link })),
    ...guarded.flatMap((link) => addLocalnetEntry({ set: localnetGuarded, link })),
  ]
}
