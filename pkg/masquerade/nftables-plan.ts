import {
  add,
  create,
  type Element,
  findElements,
  flush,
  isDormant,
  type Line,
  LineChanges,
  Lines,
  listComments,
  membersOf,
  type NamedSet,
  type Netfilter,
  type Operation,
  remove,
  removeEmptied,
  wake,
} from "../nftables/mod.ts"
import { type Cidr, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import {
  FORMER_NETWORKS,
  formerRule,
  isNetworksComment,
  type MasqueradeLayout,
  networkKey,
  networksComment,
  networksOf,
  type Place,
  placesFor,
  prefixIn,
} from "./nftables-layout.ts"

/** Which sets of networks a table has. */
export interface NetworkSets {
  prefixes: readonly number[]
  /** Whether the one of an early version is there. */
  hasFormer: boolean
}

/** None where there is no table. Throws `NetlinkError`. */
export function listNetworkSets(lines: Lines, { table }: MasqueradeLayout): NetworkSets {
  const prefixes: number[] = []
  let hasFormer = false
  for (const name of lines.namesIn(table)) {
    const prefix = prefixIn(name)
    if (prefix !== undefined) prefixes.push(prefix)
    if (name === FORMER_NETWORKS) hasFormer = true
  }
  return { prefixes, hasFormer }
}

/**
 * Whether the chain has our rules and no others: those for the networks of these addresses, and last the one that
 * masquerades. The kernel keeps chain and sets for as long as a rule needs them.
 */
export function hasMasqueradeRules(
  socket: Pick<Netfilter, "dump" | "get">,
  layout: MasqueradeLayout,
  addresses: readonly Cidr[],
): boolean {
  return hasMasqueradeRulesAsleep(socket, layout, addresses) && !isDormant(socket, layout.table)
}

/** The same, but the table may be dormant. */
export function hasMasqueradeRulesAsleep(
  socket: Pick<Netfilter, "dump">,
  { chain, rule }: MasqueradeLayout,
  addresses: readonly Cidr[],
): boolean {
  const comments = listComments(socket, chain.table, chain.name).map(({ comment }) => comment)
  const last = comments.pop()
  if (last === undefined || last !== rule.comment) return false
  const isEveryOurs = comments.every(isNetworksComment)
  const hasEach = addresses.every(({ prefix }) => comments.includes(networksComment(prefix)))
  return isEveryOurs && hasEach
}

/** The lines of these addresses in every set, if anything is in them. Throws `NetlinkError`. */
export function findAddresses(
  lines: Lines,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  ips: readonly Uint8Array[],
): Line[] {
  const found = ips.map((ip) => lines.find(layout.containers, [ip]))
  for (const ip of ips) {
    for (const prefix of prefixes) found.push(lines.find(networksOf(layout, prefix).set, networkKey(ip, prefix)))
  }
  return found.filter((line) => membersOf(line).length > 0)
}

/**
 * The elements for addresses of this owner, for a layout that is complete: refused when an address is held already. The
 * table is woken, if it is dormant.
 */
export function planNew(layout: MasqueradeLayout, addresses: readonly Cidr[], comment: string): Operation[] {
  const places = Map.groupBy(placesFor(layout, addresses, comment), ({ set }) => set)
  const elements = [...places].map(([set, ours]) =>
    create.elements(
      set,
      ours.map(({ element }) => element),
    ),
  )
  return [wake(layout.table), ...elements]
}

/** What an ADD finds of a layout. */
export interface MasqueradeState extends NetworkSets {
  /** Whether all rules are there. */
  isComplete: boolean
  /** The lines of its addresses, in every set. */
  held: readonly Line[]
}

/**
 * What is missing for these addresses: the layout, if need be, and elements of this owner. A network gives an address to
 * one container at a time, so this network's other elements for it go; those of other networks stay.
 */
export function planAdd(
  layout: MasqueradeLayout,
  state: MasqueradeState,
  addresses: readonly Cidr[],
  owner: Owner,
): Operation[] {
  const comment = ownerComment(owner)
  const places = placesFor(layout, addresses, comment)
  const changes = new LineChanges()
  const isStale = (one: Element) => one.comment === undefined || isOwnerOf(one.comment, owner.network)
  for (const line of state.held) {
    const place = places.find((place) => isFor(place, line))
    const members = membersOf(line).filter((one) => (place && one.comment === comment) || !isStale(one))
    const isThere = members.some((one) => one.comment === comment)
    changes.change(line, place && !isThere ? [...members, place.element] : members)
  }
  for (const place of places) {
    if (state.held.some((line) => isFor(place, line))) continue
    changes.change({ set: place.set, key: place.element.key, members: [undefined] }, [place.element])
  }
  return [
    ...(state.isComplete
      ? []
      : skeleton(layout, [...state.prefixes, ...addresses.map(({ prefix }) => prefix)], state.hasFormer)),
    ...changes.operations,
  ]
}

function isFor({ set, element }: Place, line: Line): boolean {
  return set === line.set && String(element.key) === String(line.key)
}

/** All of the layout, for networks of these prefix lengths. What is there stays, except for rules that are not ours. */
export function skeleton(layout: MasqueradeLayout, prefixes: readonly number[], hasFormer = false): Operation[] {
  const { table, chain, containers, rule } = layout
  const operations = [add.table(table), add.chain(chain), flush.chain(chain), add.set(containers)]
  if (hasFormer) operations.push(add.rule(formerRule(layout)))
  for (const prefix of [...new Set(prefixes)].sort((a, b) => a - b)) {
    const networks = networksOf(layout, prefix)
    operations.push(add.set(networks.set), add.rule(networks.rule))
  }
  operations.push(add.rule(rule))
  return operations
}

/**
 * Removes the elements with a comment that `isStale`, all of which have one of `needles` in them; the next in line comes
 * into force, and with the last container the table goes. Throws `NetlinkError`.
 */
export function planRemoval(
  socket: Pick<Netfilter, "get" | "dump">,
  layout: MasqueradeLayout,
  isStale: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): Operation[] {
  const { table, containers } = layout
  const lines = new Lines(socket)
  if (!lines.has(containers)) return []
  const isOurs = ({ comment }: Element) => comment !== undefined && isStale(comment)
  const stale = new Map<string, Uint8Array>()
  let others = 0
  for (const set of [containers, containers.standby]) {
    const list = lines.has(set) ? findElements(socket, set, needles) : undefined
    if (!list) continue
    others += list.count - list.elements.length
    // While a set grows, the kernel may list an element twice.
    for (const element of list.elements) {
      if (!isOurs(element)) others++
      else if (element.key[0]) stale.set(String(element.key[0]), element.key[0])
    }
  }
  if (others === 0) return [remove.table(table)]
  if (stale.size === 0) return []
  const { prefixes } = listNetworkSets(lines, layout)
  const changes = new LineChanges()
  for (const line of findAddresses(lines, layout, prefixes, [...stale.values()])) {
    const kept = membersOf(line).filter((one) => !isOurs(one))
    changes.change(line, kept)
  }
  const isAllOf = (set: NamedSet, count: number) => findElements(socket, set, [])?.count === count
  return [...changes.operations, ...removeEmptied(changes, isAllOf)]
}
