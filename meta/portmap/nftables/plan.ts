import {
  add,
  create,
  type Element,
  type FoundRule,
  flush,
  ifnameValue,
  type NamedSet,
  type Operation,
  remove,
} from "../../../pkg/nftables/mod.ts"
import { CniError, Code, isOwnerOf } from "../../../pkg/types/mod.ts"
import { printEnd, printHostEnd } from "../mapping.ts"
import { type Group, isSame, readMapping } from "./elements.ts"
import type { Layout } from "./layout.ts"
import { ownedSets, type State } from "./state.ts"
import type { Wanted } from "./wanted.ts"

/** The elements for a layout that is complete; refused when something is in the way. */
export function planNew({ groups, layout, localnetLink }: Wanted): Operation[] {
  return [...groups.map(({ set, elements }) => create.elements(set, elements)), ...recordOf(layout, localnetLink)]
}

/** What is missing, after what has to go for it. */
export interface AddPlan {
  operations: Operation[]
  created: Group[]
  /** What goes: of this owner from before, of an earlier holder of the container's address, and of holders who are gone. */
  replaced: Group[]
}

/** Which rules are not there. */
export interface MissingRules {
  /** Whether some of those that do not depend on the containers are missing. */
  isBroken: boolean
  /** The prefix lengths without a rule for `hairpin`; when it is broken, all that are in use. */
  hairpinPrefixes: readonly number[]
}

/**
 * Plans for a layout of which these parts are there. `isGone` says of an element in the way whether its owner is provably
 * gone. Throws `CniError` that names the holder of a port who is not.
 */
export function planAdd(
  wanted: Wanted,
  state: State | undefined,
  rules: MissingRules,
  isGone: (holder: Element) => boolean,
): AddPlan {
  const { layout, comment, part, localnetLink } = wanted
  const replaced: Group[] = []
  const created: Group[] = []
  for (const set of ownedSets(layout)) {
    const found = state?.found.get(set)?.elements ?? []
    const elements = wanted.groups.find((group) => group.set === set)?.elements ?? []
    const isKept = (one: Element) => elements.some((other) => isSame(one, other) && isAlike(one, other))
    // A network gives an address to one container at a time; another network may have the same addresses.
    const isFormerHolders = (one: Element) =>
      String(addressIn(set, one)) === String(part.address.ip) &&
      (set.value === undefined || isOwnerOf(one.comment ?? "", wanted.network))
    const isStale = (one: Element) => one.comment === comment || isFormerHolders(one)
    const inTheWay = found.filter((one) => !isStale(one) && elements.some(({ key }) => String(key) === String(one.key)))
    for (const one of inTheWay) if (!isGone(one)) throw taken(wanted, one)
    const stale = found.filter((one) => (isStale(one) || inTheWay.includes(one)) && !isKept(one))
    const fresh = elements.filter((one) => !found.some((other) => isSame(one, other) && isAlike(one, other)))
    if (stale.length > 0) replaced.push({ set, elements: stale })
    if (fresh.length > 0) created.push({ set, elements: fresh })
  }
  const operations = [
    ...(rules.isBroken ? skeleton(layout) : []),
    ...rules.hairpinPrefixes.map((prefix) => add.rule(layout.hairpinRule(prefix))),
    ...removalOf((state?.conditions ?? []).filter((rule) => rule.comment === comment)),
    ...replaced.map(({ set, elements }) => remove.elements(set, elements)),
    ...created.map(({ set, elements }) => create.elements(set, elements)),
    ...recordOf(layout, localnetLink),
  ]
  return { operations, created, replaced }
}

/** All of the layout. What is there already stays, except for rules in our chains that are not ours. */
export function skeleton({
  table,
  ports,
  addressPorts,
  hairpin,
  localhost,
  everybody,
  localnetLinks,
  conditions,
  chains,
  rules,
}: Layout) {
  const optional = [localhost, localnetLinks].filter((set) => set !== undefined)
  const sets = [ports, addressPorts, hairpin, everybody, ...optional]
  return [
    add.table(table),
    ...sets.map(add.set),
    ...chains.map(add.chain),
    ...chains.filter((chain) => chain !== conditions).map(flush.chain),
    ...rules.map(add.rule),
  ]
}

function recordOf({ localnetLinks }: Layout, link: string | undefined): Operation[] {
  return localnetLinks && link !== undefined ? [add.elements(localnetLinks, [{ key: [ifnameValue(link)] }])] : []
}

/** Takes out rules of `conditions`, with the chains that they lead to. */
export function removalOf(rules: readonly FoundRule[]): Operation[] {
  return rules.flatMap((rule) => {
    const chains = rule.expressions.flatMap(({ name, data }) => {
      const target = name === "immediate" && !(data instanceof Uint8Array) ? data.data?.verdict?.chain : undefined
      return target === undefined ? [] : [{ table: rule.chain.table, name: target }]
    })
    return [remove.rule(rule), ...chains.flatMap((chain) => [flush.chain(chain), remove.chain(chain)])]
  })
}

/** The container's address in an element: where a map leads, and the end of the key of a set. */
function addressIn(set: NamedSet, { key, value }: Element): Uint8Array | undefined {
  if (set.value === undefined) return key.at(-1)
  return Array.isArray(value) ? (value as readonly Uint8Array[])[0] : undefined
}

/** Whether two elements have the same owner, and say the same about it. */
function isAlike(a: Element, b: Element): boolean {
  return a.comment === b.comment && a.note === b.note
}

function taken({ layout, part, comment }: Wanted, holder: Element): CniError {
  const found = readMapping(holder)
  const end = found ? printHostEnd(found) : `of ${layout.table.name}`
  const ours = part.mappings.find((mapping) => printHostEnd(mapping) === end)
  const target = printEnd(part.address.ip, ours?.containerPort ?? 0)
  const theirs = found ? printEnd(found.ip, found.port) : "another container"
  return new CniError(
    Code.Internal,
    `Cannot map host port ${end} to ${target} for ${comment}: it is mapped to ${theirs} for ${holder.comment ?? "nobody"}`,
    { details: "the names are network/container/interface; DEL that attachment first, or choose another hostPort" },
  )
}
