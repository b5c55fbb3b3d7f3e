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

export interface DeleteContext {
  socket: NetlinkSocket
  /** Reports whether iptables needs the interfaces of `localnet_links`. Called when nf_tables has no mapping left. */
  isLocalnetNeeded(): boolean
}

export interface Deleted {
  deleted: DnatMapping[]
  /** The interfaces whose `route_localnet` could not be disabled. The guard of these interfaces stays. */
  stillOn: string[]
}

/**
 * Deletes mappings in one transaction. Mappings that wait for a deleted one become active. The table is deleted with
 * its last mapping. The ports of `mappings`, which may be wrong, are looked up first; if they lead to all mappings of
 * the attachment, the cost does not depend on the number of mappings on the host. Missing mappings are not an error.
 * Throws `NetlinkError`.
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
    // The setting is disabled before the table with its record is deleted. If the kernel refuses the deletion because
    // of a new mapping, the setting is enabled again. If only the kernel's answer was lost, the record is gone and the
    // setting stays disabled.
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
    if (mappings.length > 0) deleted = mappings // empty in a second attempt, if the answer of the first was lost
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

/** Plans the removal of the table, except for guards that are still needed. */
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
 * Plans the removal of elements. With `isOld`, replaces the chains of an earlier build. Without `isOld`, the kernel
 * refuses the transaction if such chains exist, with EOPNOTSUPP, EEXIST or EBUSY depending on its version.
 */
function deleteElements(context: DeleteContext, removal: TableRemoval, isOld: boolean): Operation[] {
  const { layout, changes, elements, conditions } = removal
  const operations = [
    ...deleteConditions(context.socket, layout, conditions, elements),
    ...changes.operations,
    ...addPromotedConditions(context.socket, layout, changes),
    ...removeEmptied(context.socket, changes, (set, count) => hasOnly(context.socket, set, count)),
  ]
  // Adding an existing chain is cheaper than reading its priority.
  if (operations.length > 0 && !isOld) return [...addDnatChain(layout), ...operations]
  const isCurrent = removeOldChains(context.socket, layout).length === 0
  return [...(isCurrent ? [] : replaceTable(context.socket, layout, [])), ...operations]
}

export interface TableRemoval {
  layout: TableLayout
  changes: QueueChanges
  elements: readonly Element[]
  conditions: readonly FoundRule[]
  /** Whether no other mapping is left. */
  isLast: boolean
  /** Whether the table contains only the guards for `route_localnet`. */
  isGuardOnly: boolean
}

/** Finds the elements and conditions whose owner `isStale`. Throws `NetlinkError`. */
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
 * Finds an attachment's elements by looking up its ports one by one. Returns undefined if there may be more elements,
 * judging by the number in their notes. Throws `NetlinkError`.
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

/** Reports whether all elements of a map are this owner's. */
function hasNoOther(socket: NetlinkSocket, map: NamedSet, comment: string, own: number): boolean {
  const { count, commented } = sampleElements(socket, map, comment)
  return commented === count && isCount(socket, map, own, count)
}

/** Reports whether a set has exactly `count` elements. Throws `NetlinkError`. */
export function hasOnly(socket: NetlinkSocket, set: NamedSet, count: number): boolean {
  return isCount(socket, set, count, sampleElements(socket, set, "").count)
}

function isCount(socket: NetlinkSocket, set: NamedSet, count: number, atLeast: number): boolean {
  if (isWholeList(atLeast) || count < atLeast) return atLeast === count
  return findElements(socket, set, [])?.count === count
}

/** Reports whether nf_tables has any mapping of an attachment, even if rules are missing. Throws `NetlinkError`. */
export function holdsHostports(socket: NetlinkSocket, owner: Owner): boolean {
  return findByComment(socket, ofOwner(owner)).some(({ elements }) => elements.length > 0)
}
