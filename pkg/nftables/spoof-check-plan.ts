import type { FoundElements } from "./read.ts"
import { add, create, type Element, flush, type NamedSet, type Operation, remove } from "./rule-set.ts"
import { allowedElement, type GuardedPort, guardedElement, spoofCheckLayout } from "./spoof-check-layout.ts"

const { table, chain, guarded, allowed, rule } = spoofCheckLayout

/** The elements that were looked for. Undefined where there is no such set. */
export interface SpoofCheckElements {
  guarded: FoundElements | undefined
  allowed: FoundElements | undefined
}

/** The elements for a port, where everything else is in place: refused when there is one for the port already. */
export function planNewGuard(port: GuardedPort, comment: string): Operation[] {
  return [
    create.elements(guarded, [guardedElement(port, comment)]),
    create.elements(allowed, [allowedElement(port, comment)]),
  ]
}

/**
 * What is missing to guard a port: table, chain, sets and rule, if need be, and the elements. Other elements for the same
 * port go: it has one owner and one MAC.
 */
export function planGuard(
  found: SpoofCheckElements & { isComplete: boolean },
  port: GuardedPort,
  comment: string,
): Operation[] {
  return [
    ...(found.isComplete ? [] : skeleton()),
    ...replace(allowed, found.allowed, allowedElement(port, comment)),
    ...replace(guarded, found.guarded, guardedElement(port, comment)),
  ]
}

/** All that is there but for elements. What is there already stays, except for rules in our chain that are not ours. */
function skeleton(): Operation[] {
  return [add.table(table), add.chain(chain), flush.chain(chain), add.set(guarded), add.set(allowed), add.rule(rule)]
}

function replace(set: NamedSet, found: FoundElements | undefined, wanted: Element): Operation[] {
  const held = (found?.elements ?? []).filter(({ key }) => String(key[0]) === String(wanted.key[0]))
  const stale = held.filter((element) => !isSame(element, wanted))
  return [
    ...(stale.length > 0 ? [remove.elements(set, stale)] : []),
    ...(stale.length === held.length ? [add.elements(set, [wanted])] : []),
  ]
}

/** Whether two elements of one set have the same key and owner. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && a.comment === b.comment
}

/** Takes out the elements with a comment that `isGone`; with the last element the whole table. */
export function planUnguard(found: SpoofCheckElements, isGone: (comment: string) => boolean): Operation[] {
  const gone = (elements: FoundElements | undefined) =>
    (elements?.elements ?? []).filter(({ comment }) => comment !== undefined && isGone(comment))
  const [goneGuarded, goneAllowed] = [gone(found.guarded), gone(found.allowed)]
  const leaving = goneGuarded.length + goneAllowed.length
  if (leaving === 0) return []
  if ((found.guarded?.count ?? 0) + (found.allowed?.count ?? 0) === leaving) return [remove.table(table)]
  return [
    ...(goneGuarded.length > 0 ? [remove.elements(guarded, goneGuarded)] : []),
    ...(goneAllowed.length > 0 ? [remove.elements(allowed, goneAllowed)] : []),
  ]
}
