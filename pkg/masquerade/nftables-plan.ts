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

/** Returns the prefix lengths that have a set of networks; none if the table does not exist. Throws `NetlinkError`. */
export function listPrefixes(queues: KeyQueues, { table }: MasqueradeLayout): number[] {
  return queues.namesIn(table).flatMap((name) => prefixIn(name) ?? [])
}

/**
 * Reports whether the chain has exactly the expected rules: those for the networks of these addresses, and last the
 * rule that masquerades. The chain and the sets need no check, because the kernel keeps them as long as a rule uses
 * them.
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

/** Returns the queues of these addresses in all sets, without empty queues. Throws `NetlinkError`. */
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
 * Returns the operations that add an owner's addresses to a complete layout, and activate a dormant table. The kernel
 * refuses them if another owner has one of the addresses.
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

export interface MasqueradeState {
  /** The prefix lengths for which sets of networks exist. */
  prefixes: readonly number[]
  /** Whether all rules exist. */
  isComplete: boolean
  /** The existing queues of the addresses in all sets. */
  held: readonly KeyQueue[]
}

/**
 * Plans the operations that add an owner's addresses, and the layout if it is incomplete. A network assigns an address
 * to only one container at a time, so elements of other owners in this network are removed. Elements of other networks
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
 * Returns the operations that add the whole layout, for networks with these prefix lengths. Existing objects stay,
 * except rules of the chain that are not part of the layout.
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
 * Plans the removal of the matching elements. The next element in a queue becomes active. If no other container is
 * left, the whole table is removed. Throws `NetlinkError`.
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
