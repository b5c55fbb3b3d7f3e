import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  type Element,
  type FoundRule,
  findElements,
  findQueues,
  isWholeList,
  KeyQueues,
  listRules,
  membersOf,
  type NamedSet,
  type Operation,
  QueueChanges,
  remove,
  removeEmptied,
  type SharedSet,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import { ofOwner, type Sought } from "../../../pkg/rules/mod.ts"
import { type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import { type DnatMapping, families, type Mapping, mappingsFor } from "../mapping.ts"
import { switchLocalnetOff } from "../route-localnet.ts"
import { addPromotedConditions, deleteConditions } from "./conditions.ts"
import { decodeNote, masqueradeKeys, portKey, readDnat, replaceTable } from "./elements.ts"
import { guardOnly, readLocalnetRecord } from "./localnet-guard.ts"
import { addDnatChain, removeOldChains, type TableLayout, tableLayout } from "./table.ts"

/** The kernel's objects that a deletion needs. */
export interface DeleteContext {
  socket: NetlinkSocket
  /** Returns whether iptables needs the interfaces of `localnet_links`; called when the last mapping is deleted. */
  isLocalnetNeeded(): boolean
}

/** Deleted mappings. */
export interface Deleted {
  deleted: DnatMapping[]
  /** The interfaces whose `route_localnet` should be off and cannot be switched off; the guard stays. */
  stillOn: string[]
}

/**
 * Deletes mappings in one transaction. Waiting mappings become active, and the last mapping deletes the table too.
 * `mappings`, which may be wrong, are the places that are searched first for those of one attachment. If all are found
 * there, the cost does not depend on the number of mappings on the host. Missing mappings are not an error. Throws
 * `NetlinkError`.
 */
export function deleteHostports(context: DeleteContext, sought: Sought, mappings: readonly Mapping[] = []): Deleted {
  const comment = sought.owner && ownerComment(sought.owner)
  const findFast = () => (comment === undefined ? undefined : findByPorts(context.socket, comment, mappings))
  return deleteFound(context, () => findFast() ?? findByComment(context.socket, sought))
}

/** Deletes the tables without mappings. Throws `NetlinkError`. */
export function deleteEmptyTables(context: DeleteContext): void {
  deleteFound(context, () => findByComment(context.socket, { isStale: () => false, needles: [] }))
}

function deleteFound(context: DeleteContext, find: () => TableRemoval[]): Deleted {
  let deleted: DnatMapping[] = []
  let off: readonly string[] = []
  let guard: TableLayout | undefined
  let staying: string[] = []
  const keepOff = (links: readonly string[], layout = guard) => {
    // The setting is switched off before the table and its record are deleted. If the deletion is refused because of a
    // new mapping, it is switched on again, except if the answer was lost and the record was removed.
    const again = off.filter((link) => !links.includes(link))
    const recorded = again.length > 0 && guard ? readLocalnetRecord(context.socket, guard).links : []
    staying = switchLocalnetOff(
      links,
      again.filter((link) => recorded.includes(link)),
    )
    off = links
    guard = layout
    return staying
  }
  const plan = (isOld: boolean) => () => {
    const removals = find()
    const mappings = removals.flatMap(({ elements }) => elements.flatMap((one) => readDnat(one) ?? []))
    if (mappings.length > 0) deleted = mappings // by a change whose answer was lost, if the next attempt finds none
    if (!removals.some(({ layout, isLast }) => layout.guards.length > 0 && isLast)) keepOff([])
    return removals.flatMap((each) =>
      each.isLast ? deleteTable(context, each, keepOff) : deleteElements(context, each, isOld),
    )
  }
  try {
    atomically(context.socket, plan(false))
  } catch (error) {
    if (!isErrno(error, "EOPNOTSUPP", "EEXIST", "EBUSY")) throw error
    atomically(context.socket, plan(true))
  }
  return { deleted, stillOn: staying }
}

/** Deletes the table, except for guards that are still needed. */
function deleteTable(
  context: DeleteContext,
  { layout, isGuardOnly }: TableRemoval,
  keepOff: (links: readonly string[], layout: TableLayout) => readonly string[],
): Operation[] {
  if (layout.guards.length === 0) return [remove.table(layout.table)]
  const { links, guarded } = readLocalnetRecord(context.socket, layout)
  const isNeeded = links.length > 0 && context.isLocalnetNeeded()
  const staying = keepOff(isNeeded ? [] : links, layout)
  const recorded = isNeeded ? links : staying
  if (recorded.length === 0 && guarded.length === 0) return [remove.table(layout.table)]
  if (isGuardOnly && recorded.length === links.length) return []
  return [remove.table(layout.table), ...guardOnly(layout, { links: recorded, guarded })]
}

/**
 * With `isOld` replaces the chains of an earlier build. Without it the kernel refuses the change if it has such chains,
 * by EOPNOTSUPP, EEXIST or EBUSY, depending on its version.
 */
function deleteElements(context: DeleteContext, removal: TableRemoval, isOld: boolean): Operation[] {
  const { layout, changes, elements, conditions } = removal
  const operations = [
    ...deleteConditions(context.socket, layout, conditions, elements),
    ...changes.operations,
    ...addPromotedConditions(context.socket, layout, changes),
    ...removeEmptied(context.socket, changes, (set, count) => hasOnly(context.socket, set, count)),
  ]
  // Adding an existing chain costs less than reading its priority.
  if (operations.length > 0 && !isOld) return [...addDnatChain(layout), ...operations]
  const isCurrent = removeOldChains(context.socket, layout).length === 0
  return [...(isCurrent ? [] : replaceTable(context.socket, layout, [])), ...operations]
}

/** The planned removal from one family's table. */
export interface TableRemoval {
  layout: TableLayout
  changes: QueueChanges
  /** The removed elements, with the keys of their sets. */
  elements: readonly Element[]
  conditions: readonly FoundRule[]
  /** No other mapping is left. */
  isLast: boolean
  /** The table has only the guards for `route_localnet`. */
  isGuardOnly: boolean
}

/** Finds all matching elements and conditions. Throws `NetlinkError`. */
export function findByComment(socket: NetlinkSocket, { isStale, needles }: Sought): TableRemoval[] {
  const isGoing = ({ comment }: { comment?: string | undefined }) => comment !== undefined && isStale(comment)
  return families.flatMap((family): TableRemoval[] => {
    const layout = tableLayout(family)
    const queues = new KeyQueues(socket)
    if (queues.namesIn(layout.table).length === 0) return []
    const { found, others } = findQueues({ socket, queues, sets: layout.ownedSets }, isGoing, needles)
    const isGuardOnly = !layout.ownedSets.some((set) => queues.has(set))
    const changes = new QueueChanges()
    for (const queue of found) changes.remove(queue, isGoing)
    const elements = found.flatMap((queue) => membersOf(queue).filter(isGoing))
    const conditions = isGuardOnly ? [] : listRules(socket, layout.conditions, needles).filter(isGoing)
    return [{ layout, changes, elements, conditions, isLast: others === 0, isGuardOnly }]
  })
}

/**
 * Finds an attachment's elements in the tables by looking up its ports one by one. Undefined if there may be more: the
 * elements' notes have the number. Throws `NetlinkError`.
 */
export function findByPorts(
  socket: NetlinkSocket,
  comment: string,
  mappings: readonly Mapping[],
): TableRemoval[] | undefined {
  const removals: TableRemoval[] = []
  let missing = Number.POSITIVE_INFINITY
  const queues = new KeyQueues(socket)
  for (const family of families) {
    const layout = tableLayout(family)
    const changes = new QueueChanges()
    const elements: Element[] = []
    const inForce = new Map<SharedSet, number>()
    const find = (set: SharedSet, key: readonly Uint8Array[]) => {
      const queue = queues.find(set, key)
      const own = queue.members.find((one) => one?.comment === comment)
      if (!own) return
      if (own === queue.members[0]) inForce.set(set, (inForce.get(set) ?? 0) + 1)
      elements.push(own)
      changes.remove(queue, (one) => one === own)
    }
    for (const mapping of mappingsFor(family, mappings)) {
      const { set, key } = portKey(layout, mapping)
      find(set, key)
    }
    const [first] = elements
    if (!first) continue
    const note = decodeNote(first.note)
    const ip = readDnat(first)?.containerIp
    if (!note || !ip || note.isConditional) return undefined
    const isLast =
      changes.promoted.length === 0 &&
      [layout.ports, layout.addressPorts].every((map) => hasNoOther(socket, map, comment, inForce.get(map) ?? 0))
    missing = Math.min(missing, note.count)
    for (const { set, key } of masqueradeKeys(layout, { ip, prefix: note.prefix })) {
      if (elements.length < missing) find(set, key)
    }
    missing -= elements.length
    removals.push({ layout, changes, elements, conditions: [], isLast, isGuardOnly: false })
    if (missing === 0) return removals
  }
  return undefined
}

/** Returns whether a map has no elements besides this owner's. */
function hasNoOther(socket: NetlinkSocket, map: NamedSet, comment: string, own: number): boolean {
  const { count, commented } = sampleElements(socket, map, comment)
  return commented === count && isCount(socket, map, own, count)
}

/** Returns whether a set has exactly so many elements. Throws `NetlinkError`. */
export function hasOnly(socket: NetlinkSocket, set: NamedSet, count: number): boolean {
  return isCount(socket, set, count, sampleElements(socket, set, "").count)
}

function isCount(socket: NetlinkSocket, set: NamedSet, count: number, atLeast: number): boolean {
  if (isWholeList(atLeast) || count < atLeast) return atLeast === count
  return findElements(socket, set, [])?.count === count
}

/** Returns whether an attachment has any mapping in nf_tables, also where rules are missing. Throws `NetlinkError`. */
export function holdsHostports(socket: NetlinkSocket, owner: Owner): boolean {
  return findByComment(socket, ofOwner(owner)).some(({ elements }) => elements.length > 0)
}
