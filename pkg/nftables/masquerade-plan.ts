import { containerElement, type MasqueradeAddress, type MasqueradeLayout, networkElement } from "./masquerade-layout.ts"
import type { MasqueradeElements } from "./masquerade-state.ts"
import type { FoundElements } from "./read.ts"
import { add, create, type Element, flush, type NamedSet, type Operation, remove } from "./rule-set.ts"

/** The elements for addresses of this owner, for a layout that is complete: refused when an address is held already. */
export function planNew(
  layout: MasqueradeLayout,
  addresses: readonly MasqueradeAddress[],
  comment: string,
): Operation[] {
  return [
    create.elements(
      layout.containers,
      addresses.map((address) => containerElement(address, comment)),
    ),
    create.elements(
      layout.networks,
      addresses.map((address) => networkElement(address, comment)),
    ),
  ]
}

/**
 * What is missing for these addresses: the layout, if need be, and elements of this owner. Other elements for the same
 * address go: an address that was given to a new container has no other owner any more.
 */
export function planAdd(
  layout: MasqueradeLayout,
  state: MasqueradeElements & { isComplete: boolean },
  addresses: readonly MasqueradeAddress[],
  comment: string,
): Operation[] {
  const { containers, networks } = layout
  return [
    ...(state.isComplete ? [] : skeleton(layout)),
    ...replace(
      containers,
      state.containers,
      addresses.map((address) => containerElement(address, comment)),
    ),
    ...replace(
      networks,
      state.networks,
      addresses.map((address) => networkElement(address, comment)),
    ),
  ]
}

/** All of the layout. What is there already stays, except for rules in our chain that are not ours. */
function skeleton({ table, chain, containers, networks, rule }: MasqueradeLayout): Operation[] {
  return [
    add.table(table),
    add.chain(chain),
    flush.chain(chain),
    add.set(containers),
    add.set(networks),
    add.rule(rule),
  ]
}

function replace(set: NamedSet, found: FoundElements | undefined, wanted: readonly Element[]): Operation[] {
  const addresses = new Set(wanted.map(addressOf))
  const held = (found?.elements ?? []).filter((element) => addresses.has(addressOf(element)))
  const stale = held.filter((element) => !wanted.some((other) => isSame(element, other)))
  const missing = wanted.filter((element) => !held.some((other) => isSame(element, other)))
  return [
    ...(stale.length > 0 ? [remove.elements(set, stale)] : []),
    ...(missing.length > 0 ? [add.elements(set, missing)] : []),
  ]
}

/** Takes out the elements with a comment that `isGone`; with the last element the whole table. */
export function planRemove(
  { table, containers, networks }: MasqueradeLayout,
  found: MasqueradeElements,
  isGone: (comment: string) => boolean,
): Operation[] {
  if (!found.containers && !found.networks) return []
  const gone = (set: FoundElements | undefined) =>
    (set?.elements ?? []).filter(({ comment }) => comment !== undefined && isGone(comment))
  const [goneContainers, goneNetworks] = [gone(found.containers), gone(found.networks)]
  const count = (found.containers?.count ?? 0) + (found.networks?.count ?? 0)
  if (count === goneContainers.length + goneNetworks.length) return [remove.table(table)]
  return [
    ...(goneContainers.length > 0 ? [remove.elements(containers, goneContainers)] : []),
    ...(goneNetworks.length > 0 ? [remove.elements(networks, goneNetworks)] : []),
  ]
}

function addressOf({ key }: Element): string {
  return String(key[0])
}

/** Whether two elements of one set have the same key, range and owner. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && String(a.keyEnd) === String(b.keyEnd) && a.comment === b.comment
}
