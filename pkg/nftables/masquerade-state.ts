import { getElement } from "./lookup.ts"
import {
  FORMER_NETWORKS,
  isNetworksComment,
  type MasqueradeAddress,
  type MasqueradeLayout,
  networkKey,
  networksComment,
  networksOf,
  type Place,
  prefixIn,
} from "./masquerade-layout.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { findElements, listComments } from "./read.ts"
import type { Element, NamedSet } from "./rule-set.ts"
import { listSetNames } from "./sets.ts"

/** Which sets of networks a table has. */
export interface NetworkSets {
  prefixes: readonly number[]
  /** Whether the one of an early version is there. */
  hasFormer: boolean
}

/** None where there is no table. Throws `NetlinkError`. */
export function listNetworkSets(socket: Pick<Netfilter, "dump">, { table }: MasqueradeLayout): NetworkSets {
  const prefixes: number[] = []
  let hasFormer = false
  for (const name of listSetNames(socket, table)) {
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
  socket: Pick<Netfilter, "dump">,
  { chain, rule }: MasqueradeLayout,
  addresses: readonly MasqueradeAddress[],
): boolean {
  const comments = listComments(socket, chain)
  const last = comments.pop()
  if (last === undefined || last !== rule.comment) return false
  for (const comment of comments) if (!isNetworksComment(comment)) return false
  for (const { prefix } of addresses) if (!comments.includes(networksComment(prefix))) return false
  return true
}

/** Where these addresses stand, whoever has put them there: one question for each set. Throws `NetlinkError`. */
export function findAddresses(
  socket: Pick<Netfilter, "get">,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  addresses: readonly MasqueradeAddress[],
): Place[] {
  const places: Place[] = []
  for (const { ip } of addresses) look(socket, layout.containers, [ip], places)
  for (const { ip } of addresses) findNetworks(socket, layout, prefixes, ip, places)
  return places
}

function findNetworks(
  socket: Pick<Netfilter, "get">,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  ip: Uint8Array,
  places: Place[],
): void {
  for (const prefix of prefixes) look(socket, networksOf(layout, prefix).set, networkKey(ip, prefix), places)
}

function look(socket: Pick<Netfilter, "get">, set: NamedSet, key: Uint8Array[], places: Place[]): void {
  const element = getElement(socket, set, key)
  if (element) places.push({ set, element })
}

/** What is to go from a table. */
export interface Gone {
  places: readonly Place[]
  /** Whether no container is left then. */
  isAll: boolean
}

/**
 * Where addresses stand whose comment in `containers` says that they are gone; all such comments have one of `needles` in
 * them. Undefined when there is no such set. Throws `NetlinkError`.
 */
export function findGone(
  socket: Pick<Netfilter, "get" | "dump">,
  layout: MasqueradeLayout,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): Gone | undefined {
  const found = findElements(socket, layout.containers, needles)
  if (!found) return undefined
  const gone = new Map<string, Element>() // while a set grows, the kernel may list an element twice
  let others = found.count - found.elements.length
  for (const element of found.elements) {
    if (element.comment !== undefined && isGone(element.comment)) gone.set(String(element.key), element)
    else others++
  }
  const places: Place[] = []
  if (others === 0 || gone.size === 0) return { places, isAll: others === 0 }
  const { prefixes } = listNetworkSets(socket, layout)
  for (const element of gone.values()) places.push({ set: layout.containers, element })
  for (const { key } of gone.values()) if (key[0]) findNetworks(socket, layout, prefixes, key[0], places)
  return { places, isAll: false }
}
