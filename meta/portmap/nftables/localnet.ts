import { type NetlinkSocket, text } from "../../../pkg/netlink/mod.ts"
import {
  add,
  findElements,
  getElement,
  ifnameValue,
  type NamedSet,
  type Operation,
  remove,
} from "../../../pkg/nftables/mod.ts"
import { isLocalnetOn, isLocalnetOnLink, switchLocalnet } from "../host-link.ts"
import type { Layout } from "./layout.ts"

/** Which interfaces have `route_localnet` because of mappings, and whether it goes off with the last one. */
export interface LocalnetRecord {
  /** Of `localnet_links`: it was off before. */
  links: readonly string[]
  /** Of `localnet_guarded`: it was on before, and still is. */
  guarded: readonly string[]
}

/** An entry in one of the two sets. */
export interface LocalnetEntry {
  set: NamedSet
  link: string
}

/**
 * What is to be written down about an interface that needs `route_localnet`, as it is now: that it is off; or that it is
 * on, if nothing tells who has switched it on. Undefined when that is known: it stands in the table, or it is on for all
 * interfaces, which is nobody's doing here. Throws `NetlinkError`.
 */
export function missingEntry(
  socket: Pick<NetlinkSocket, "get">,
  { localnetLinks, localnetGuarded }: Layout,
  link: string | undefined,
): LocalnetEntry | undefined {
  if (link === undefined || !localnetLinks || !localnetGuarded) return undefined
  if (!isLocalnetOn(link)) return { set: localnetLinks, link }
  if (!isLocalnetOnLink(link)) return undefined
  const isKnown = [localnetLinks, localnetGuarded].some((set) => getElement(socket, set, [ifnameValue(link)]))
  return isKnown ? undefined : { set: localnetGuarded, link }
}

/** Writes it down, with the set that it needs. */
export function recordEntry(entry: LocalnetEntry | undefined): Operation[] {
  return entry ? [add.set(entry.set), add.elements(entry.set, [{ key: [ifnameValue(entry.link)] }])] : []
}

/** Takes it back. */
export function forgetEntry({ set, link }: LocalnetEntry): Operation {
  return remove.elements(set, [{ key: [ifnameValue(link)] }])
}

/** What is written down; nothing where there is no table. Throws `NetlinkError`. */
export function readRecord(
  socket: Pick<NetlinkSocket, "dump">,
  { localnetLinks, localnetGuarded }: Layout,
): LocalnetRecord {
  return { links: namesIn(socket, localnetLinks), guarded: namesIn(socket, localnetGuarded).filter(isLocalnetOnLink) }
}

function namesIn(socket: Pick<NetlinkSocket, "dump">, set: NamedSet | undefined): string[] {
  const found = set && findElements(socket, set)
  return (found?.elements ?? []).map(({ key: [name = new Uint8Array(0)] }) => text.decode(name))
}

/** The table with nothing but the guard, and what it is there for. */
export function guardOnly(
  { table, guard, localnetLinks, localnetGuarded }: Layout,
  record: LocalnetRecord,
): Operation[] {
  if (!guard || !localnetLinks || !localnetGuarded) return []
  const entries = [
    ...record.links.map((link) => ({ set: localnetLinks, link })),
    ...record.guarded.map((link) => ({ set: localnetGuarded, link })),
  ]
  return [add.table(table), add.chain(guard.chain), add.rule(guard), ...entries.flatMap(recordEntry)]
}

/** Switches the setting of interfaces off, for a table that is to go; and on again those of `before` that stay after all. */
export function switchOff(links: readonly string[], before: readonly string[]): void {
  for (const link of before) if (!links.includes(link)) switchLocalnet(link, true)
  for (const link of links) switchLocalnet(link, false)
}
