import {
  add,
  create,
  type Element,
  type FoundRule,
  flush,
  type Line,
  LineChanges,
  membersOf,
  type Operation,
  type SharedSet,
} from "../../../pkg/nftables/mod.ts"
import { CniError, Code, isOfContainer, isOwnerOf } from "../../../pkg/types/mod.ts"
import { printEnd, printHostEnd } from "../mapping.ts"
import { nameIn } from "./conditions.ts"
import { addressIn, readMapping } from "./elements.ts"
import type { Layout } from "./layout.ts"
import type { Wanted } from "./wanted.ts"

/** The elements for a layout that is complete; refused when something is in the way. */
export function planNew({ groups }: Wanted): Operation[] {
  return groups.map(({ set, elements }) => create.elements(set, elements))
}

/** What an ADD finds: who has the keys that it wants, and what this owner and former ones have left anywhere. */
export interface Found {
  lines: readonly Line[]
  /** This owner's, from before. */
  conditions: readonly FoundRule[]
}

/** What is to change, and what it means. */
export interface AddPlan {
  changes: LineChanges
  /** What goes or changes: of this owner from before, of earlier holders of its address, and of holders who are gone. */
  stale: Element[]
  /** The mappings that stand by, by name, and the addresses of those that are before them. */
  standingBy: Set<string>
  ahead: Uint8Array[]
}

/**
 * Plans the elements. A port that another attachment of the same container has is shared: this one stands by. `isGone` says
 * of another container's element in the way whether its owner is provably gone. Throws `CniError` that names the holder of a
 * port who is not.
 */
export function planAdd(wanted: Wanted, lines: readonly Line[], isGone: (holder: Element) => boolean): AddPlan {
  const plan: AddPlan = { changes: new LineChanges(), stale: [], standingBy: new Set(), ahead: [] }
  const elements = new Map<string, Element>()
  for (const { set, elements: own } of wanted.groups) for (const one of own) elements.set(nameOf(set, one.key), one)
  for (const line of lines) {
    const own = elements.get(nameOf(line.set, line.key))
    const after: Element[] = []
    for (const member of membersOf(line)) {
      const isOwn = member.comment === wanted.comment
      if (isOwn) plan.stale.push(member)
      if (isOwn && own) after.push(own)
      else if (isOwn) continue
      else if (isStale(wanted, line.set, member)) plan.stale.push(member)
      else if (!own || mayShare(wanted, line.set, member)) after.push(member)
      else if (isGone(member)) plan.stale.push(member)
      else throw taken(wanted, member)
    }
    if (own && !after.includes(own)) after.push(own)
    plan.changes.change(line, after)
    const [first] = after
    const mapping = own && first !== own ? readMapping(own) : undefined
    if (!mapping || !first) continue
    plan.standingBy.add(nameIn(wanted.layout, mapping))
    const address = addressIn(line.set, first)
    if (address) plan.ahead.push(address)
  }
  return plan
}

function nameOf(set: SharedSet, key: readonly Uint8Array[]): string {
  return `${set.name} ${key}`
}

/**
 * Whether an element is of this owner from before, or of a former holder of the container's address: a network gives an
 * address to one container at a time; another network may have the same addresses.
 */
export function isStale({ comment, owner, part }: Wanted, set: SharedSet, found: Element): boolean {
  if (found.comment === comment || (found.comment === undefined && set.value === undefined)) return true
  return isOwnerOf(found.comment ?? "", owner.network) && String(addressIn(set, found)) === String(part.address.ip)
}

/** Whether both may want the key: a port of the same container, or an address that another network has too. */
export function mayShare({ owner }: Wanted, set: SharedSet, found: Element): boolean {
  return set.value === undefined || isOfContainer(found.comment ?? "", owner.containerId)
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
}: Layout): Operation[] {
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
