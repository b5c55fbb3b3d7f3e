import {
  add,
  create,
  type Element,
  encodeAhead,
  findQueues,
  flush,
  isDormant,
  type KeyQueue,
  KeyQueues,
  listComments,
  membersOf,
  type Netfilter,
  type Operation,
  QueueChanges,
  remove,
  removeEmptied,
  wake,
  withEncoded,
} from "../nftables/mod.ts"
import type { Sought } from "../rules/mod.ts"
import { AF_INET, AF_INET6, type Cidr, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import {
  isNetworksComment,
  type MasqueradeLayout,
  masqueradeLayout,
  networkKey,
  networksComment,
  networksOf,
  type Place,
  placesFor,
  prefixIn,
} from "./nftables-layout.ts"

/**
 * Returns the prefix lengths of a table's sets of networks; empty if the table does not exist. Throws `NetlinkError`.
 */
export function listPrefixes(queues: KeyQueues, { table }: MasqueradeLayout): number[] {
  return queues.namesIn(table).flatMap((name) => prefixIn(name) ?? [])
}

/**
 * Whether the chain has exactly our rules: those for the networks of these addresses, and last the one that
 * masquerades. The kernel keeps chain and sets as long as a rule uses them.
 */
export function hasMasqueradeRules(
  socket: Pick<Netfilter, "dump" | "get">,
  layout: MasqueradeLayout,
  addresses: readonly Cidr[],
): boolean {
  return hasMasqueradeRulesEvenIfDormant(socket, layout, addresses) && !isDormant(socket, layout.table)
}

/** Like `hasMasqueradeRules`, but the table may be dormant. */
export function hasMasqueradeRulesEvenIfDormant(
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

/** Returns the queues of these addresses in every set that has any. Throws `NetlinkError`. */
export function findAddresses(
  queues: KeyQueues,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  ips: readonly Uint8Array[],
): KeyQueue[] {
  const found = ips.map((ip) => queues.find(layout.containers, [ip]))
  return [...found, ...findInNetworks(queues, layout, prefixes, ips)].filter((queue) => membersOf(queue).length > 0)
}

function findInNetworks(
  queues: KeyQueues,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  ips: readonly Uint8Array[],
): KeyQueue[] {
  return ips.flatMap((ip) =>
    prefixes.map((prefix) => queues.find(networksOf(layout, prefix).set, networkKey(ip, prefix))),
  )
}

/**
 * Returns the elements for addresses of this owner in a complete layout; the kernel refuses them if an address is held.
 * A dormant table is activated.
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

/** The state of a layout at ADD. */
export interface MasqueradeState {
  /** The prefix lengths of the sets of networks. */
  prefixes: readonly number[]
  /** Whether all rules exist. */
  isComplete: boolean
  /** The queues of the addresses in every set. */
  held: readonly KeyQueue[]
}

/**
 * Plans what is missing for these addresses: the layout, if need be, and elements of this owner. A network gives an
 * address to one container at a time, so this network's other elements for it are removed; those of other networks
 * stay.
 */
export function planAdd(
  layout: MasqueradeLayout,
  state: MasqueradeState,
  addresses: readonly Cidr[],
  owner: Owner,
): Operation[] {
  const comment = ownerComment(owner)
  const places = placesFor(layout, addresses, comment)
  const changes = new QueueChanges()
  const isStale = (one: Element) => one.comment === undefined || isOwnerOf(one.comment, owner.network)
  for (const queue of state.held) {
    const place = places.find((place) => isFor(place, queue))
    if (place) changes.claim(queue, place.element, isStale)
    else changes.remove(queue, isStale)
  }
  for (const place of places) {
    if (state.held.some((queue) => isFor(place, queue))) continue
    changes.change({ set: place.set, key: place.element.key, members: [undefined] }, [place.element])
  }
  return [
    ...(state.isComplete ? [] : skeleton(layout, [...state.prefixes, ...addresses.map(({ prefix }) => prefix)])),
    ...changes.operations,
  ]
}

function isFor({ set, element }: Place, queue: KeyQueue): boolean {
  return set === queue.set && String(element.key) === String(queue.key)
}

/**
 * Adds the whole layout, for networks of these prefix lengths. Existing objects stay, except for rules that are not
 * ours.
 */
export function skeleton(layout: MasqueradeLayout, prefixes: readonly number[]): Operation[] {
  return withEncoded(skeletonOperations(layout, prefixes), encodedSkeletons[layout.family])
}

function skeletonOperations(layout: MasqueradeLayout, prefixes: readonly number[]): Operation[] {
  const { table, chain, containers, rule } = layout
  const operations = [add.table(table), add.chain(chain), flush.chain(chain), add.set(containers)]
  for (const prefix of [...new Set(prefixes)].sort((a, b) => a - b)) {
    const networks = networksOf(layout, prefix)
    operations.push(add.set(networks.set), add.rule(networks.rule))
  }
  operations.push(add.rule(rule))
  return operations
}

const encodedSkeletons = {
  [AF_INET]: encodeAhead(skeletonOperations(masqueradeLayout(AF_INET), [])),
  [AF_INET6]: encodeAhead(skeletonOperations(masqueradeLayout(AF_INET6), [])),
}

/**
 * Removes the matching elements. The next one in the queue becomes active; the table is removed with the last
 * container. Throws `NetlinkError`.
 */
export function planRemoval(
  socket: Pick<Netfilter, "get" | "dump">,
  layout: MasqueradeLayout,
  { isStale, needles }: Sought,
): Operation[] {
  const { table, containers } = layout
  const queues = new KeyQueues(socket)
  if (!queues.has(containers)) return []
  const isSought = ({ comment }: Element) => comment !== undefined && isStale(comment)
  const { found, others } = findQueues({ socket, queues, sets: [containers] }, isSought, needles)
  if (others === 0) return [remove.table(table)]
  if (found.length === 0) return []
  const ips = found.flatMap(({ key }) => key.slice(0, 1))
  const changes = new QueueChanges()
  for (const queue of [...found, ...findInNetworks(queues, layout, listPrefixes(queues, layout), ips)]) {
    changes.remove(queue, isSought)
  }
  return [...changes.operations, ...removeEmptied(socket, changes)]
}
