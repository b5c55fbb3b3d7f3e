import { type Line, LineChanges, Lines, membersOf, removeEmptied, type SharedSet } from "./lines.ts"
import {
  FORMER_NETWORKS,
  isNetworksComment,
  type MasqueradeAddress,
  type MasqueradeLayout,
  networkKey,
  networksComment,
  networksOf,
  prefixIn,
} from "./masquerade-layout.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { findElements, listComments } from "./read.ts"
import type { Element, NamedSet, Operation } from "./rule-set.ts"

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

/** Who has these addresses, whoever has put them there: in every set, for those that anybody has. Throws `NetlinkError`. */
export function findAddresses(
  lines: Lines,
  layout: MasqueradeLayout,
  prefixes: readonly number[],
  ips: readonly Uint8Array[],
): Line[] {
  const found: Line[] = []
  const look = (set: SharedSet, key: readonly Uint8Array[]) => {
    const line = lines.find(set, key)
    if (membersOf(line).length > 0) found.push(line)
  }
  for (const ip of ips) look(layout.containers, [ip])
  for (const ip of ips) for (const prefix of prefixes) look(networksOf(layout, prefix).set, networkKey(ip, prefix))
  return found
}

/** What is to go from a table. */
export interface Gone {
  operations: readonly Operation[]
  /** Whether no container is left then. */
  isAll: boolean
}

/**
 * What takes out the elements whose comments say that they are gone; all such comments have one of `needles` in them. Who
 * stands by for one of them comes into force. Undefined when there is no such set. Throws `NetlinkError`.
 */
export function findGone(
  socket: Pick<Netfilter, "get" | "dump">,
  layout: MasqueradeLayout,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): Gone | undefined {
  const { containers } = layout
  const lines = new Lines(socket)
  if (!lines.has(containers)) return undefined
  const gone = new Map<string, Uint8Array>()
  const isOurs = ({ comment }: Element) => comment !== undefined && isGone(comment)
  let others = 0
  for (const set of [containers, containers.standby]) {
    const list = lines.has(set) ? findElements(socket, set, needles) : undefined
    if (!list) continue
    others += list.count - list.elements.length
    // While a set grows, the kernel may list an element twice.
    for (const element of list.elements) {
      if (!isOurs(element)) others++
      else if (element.key[0]) gone.set(String(element.key[0]), element.key[0])
    }
  }
  if (others === 0 || gone.size === 0) return { operations: [], isAll: others === 0 }
  const { prefixes } = listNetworkSets(lines, layout)
  const changes = new LineChanges()
  for (const line of findAddresses(lines, layout, prefixes, [...gone.values()])) {
    const members = membersOf(line)
    changes.change(
      line,
      members.filter((one) => !isOurs(one)),
    )
  }
  const isAllOf = (set: NamedSet, count: number) => findElements(socket, set, [])?.count === count
  return { operations: [...changes.operations, ...removeEmptied(changes, isAllOf)], isAll: false }
}
