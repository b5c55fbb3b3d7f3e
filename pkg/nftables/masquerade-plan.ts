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
  /** Where its addresses stand. */
  held: readonly Place[]
}

/**
 * What is missing for these addresses: the layout, if need be, and elements of this owner. Other elements for the same
 * address go: an address that was given to a new container has no other owner any more.
 */
export function planAdd(
  layout: MasqueradeLayout,
  state: MasqueradeState,
  addresses: readonly MasqueradeAddress[],
  comment: string,
): Operation[] {
  const wanted = placesFor(layout, addresses, comment)
  return [
    ...(state.isComplete ? [] : skeleton(layout, [...state.prefixes, ...prefixesOf(addresses)], state.hasFormer)),
    ...bySet(remove.elements, without(state.held, wanted)),
    ...bySet(add.elements, without(wanted, state.held)),
  ]
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
export function planRemove({ table }: MasqueradeLayout, { places, isAll }: Gone): Operation[] {
  return isAll ? [remove.table(table)] : bySet(remove.elements, places)
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

/** Those that are not among the others. */
function without(places: readonly Place[], others: readonly Place[]): Place[] {
  return places.filter(
    (place) => !others.some((other) => place.set === other.set && isSame(place.element, other.element)),
  )
}

/** Whether two elements of one set have the same key and owner. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && a.comment === b.comment
}
