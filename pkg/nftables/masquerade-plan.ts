import { isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { type Line, LineChanges, membersOf } from "./lines.ts"
import {
  formerRule,
  type MasqueradeAddress,
  type MasqueradeLayout,
  networksOf,
  type Place,
  placesFor,
} from "./masquerade-layout.ts"
import type { Gone, NetworkSets } from "./masquerade-state.ts"
import { add, create, type Element, flush, type NamedSet, type Operation, remove } from "./rule-set.ts"

/** The elements for addresses of this owner, for a layout that is complete: refused when an address is held already. */
export function planNew(
  layout: MasqueradeLayout,
  addresses: readonly MasqueradeAddress[],
  comment: string,
): Operation[] {
  return bySet(create.elements, placesFor(layout, addresses, comment))
}

/** What an ADD finds of a layout. */
export interface MasqueradeState extends NetworkSets {
  /** Whether all rules are there. */
  isComplete: boolean
  /** Who has its addresses, in every set. */
  held: readonly Line[]
}

/**
 * What is missing for these addresses: the layout, if need be, and elements of this owner. A network gives an address to
 * one container at a time, so this network's other elements for it go; those of other networks stay.
 */
export function planAdd(
  layout: MasqueradeLayout,
  state: MasqueradeState,
  addresses: readonly MasqueradeAddress[],
  owner: Owner,
): Operation[] {
  const comment = ownerComment(owner)
  const wanted = placesFor(layout, addresses, comment)
  const changes = new LineChanges()
  const isStale = (one: Element) => one.comment === undefined || isOwnerOf(one.comment, owner.network)
  for (const line of state.held) {
    const place = wanted.find((place) => isFor(place, line))
    const members = membersOf(line).filter((one) => (place && one.comment === comment) || !isStale(one))
    const isThere = members.some((one) => one.comment === comment)
    changes.change(line, place && !isThere ? [...members, place.element] : members)
  }
  for (const place of wanted) {
    if (state.held.some((line) => isFor(place, line))) continue
    changes.change({ set: place.set, key: place.element.key, members: [undefined] }, [place.element])
  }
  return [
    ...(state.isComplete ? [] : skeleton(layout, [...state.prefixes, ...prefixesOf(addresses)], state.hasFormer)),
    ...changes.operations,
  ]
}

function isFor({ set, element }: Place, line: Line): boolean {
  return set === line.set && String(element.key) === String(line.key)
}

function prefixesOf(addresses: readonly MasqueradeAddress[]): number[] {
  return addresses.map(({ prefix }) => prefix)
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

/** Takes out what is gone; with the last container the whole table. */
export function planRemove({ table }: MasqueradeLayout, { operations, isAll }: Gone): Operation[] {
  return isAll ? [remove.table(table)] : [...operations]
}

/** One operation for all neighbours in the same set. */
function bySet(operation: (set: NamedSet, elements: Element[]) => Operation, places: readonly Place[]): Operation[] {
  const operations: Operation[] = []
  let last: { set: NamedSet; elements: Element[] } | undefined
  for (const { set, element } of places) {
    if (last?.set === set) {
      last.elements.push(element)
      continue
    }
    last = { set, elements: [element] }
    operations.push(operation(set, last.elements))
  }
  return operations
}
