import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { add, atomically, type Operation, remove, removeEmptied } from "../../../pkg/nftables/mod.ts"
import type { Sought } from "../../../pkg/rules/mod.ts"
import { ownerComment } from "../../../pkg/types/mod.ts"
import type { DnatMapping, Mapping } from "../mapping.ts"
import { guardOnly, readLocalnetRecord, switchLocalnetOff } from "../route-localnet.ts"
import { addPromotedConditions, deleteConditions } from "./conditions.ts"
import { readDnat } from "./elements.ts"
import { findByComment, findByPorts, hasOnly, replaceTable, type TableRemoval } from "./find.ts"
import { removeOldChains } from "./table.ts"

/** What deleting works with. */
export interface DeleteContext {
  socket: NetlinkSocket
  /** Whether iptables needs the interfaces of `localnet_links`; asked when the last mapping goes. */
  isLocalnetNeeded(): boolean
}

/** What was deleted. */
export interface Deleted {
  deleted: DnatMapping[]
  /** The interfaces whose `route_localnet` cannot be switched off; the guard stays. */
  stillOn: readonly string[]
}

/**
 * Deletes the mappings that are sought, in one transaction; what stands by for them comes into force, and the last one takes the
 * table along. `mappings`, which may be wrong, are where it looks first for those of one attachment: if it finds all there, that
 * costs the same with one mapping on the host and with thousands. Nothing there is success. Throws `NetlinkError`.
 */
export function deleteHostports(context: DeleteContext, sought: Sought, mappings: readonly Mapping[] = []): Deleted {
  const comment = sought.owner && ownerComment(sought.owner)
  const findFast = () => (comment === undefined ? undefined : findByPorts(context.socket, comment, mappings))
  return deleteFound(context, () => findFast() ?? findByComment(context.socket, sought))
}

/** Deletes the tables in which no mapping is left. Throws `NetlinkError`. */
export function deleteEmptyTables(context: DeleteContext): void {
  deleteFound(context, () => findByComment(context.socket, { isStale: () => false, needles: [] }))
}

function deleteFound(context: DeleteContext, find: () => TableRemoval[]): Deleted {
  let deleted: DnatMapping[] = []
  let off: readonly string[] = []
  let guard: TableRemoval["layout"] | undefined
  let staying: readonly string[] = []
  const keepOff = (links: readonly string[], layout = guard) => {
    // Before the table goes, and with it the record; when the deletion is refused because a new mapping came in between,
    // it is needed again. Not so when the answer was lost, and the record was removed.
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
    if (mappings.length > 0) deleted = mappings // by an answer that was lost, if there are none the next time
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

/** Deletes the table, but for the guards if they are needed still. */
function deleteTable(
  context: DeleteContext,
  { layout, isGuardOnly }: TableRemoval,
  keepOff: (links: readonly string[], layout: TableRemoval["layout"]) => readonly string[],
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

/** With `isOld` the chains of an earlier build are replaced; without it they refuse the change, by EOPNOTSUPP, EEXIST or EBUSY: that depends on the kernel. */
function deleteElements(context: DeleteContext, removal: TableRemoval, isOld: boolean): Operation[] {
  const { layout, changes, elements, conditions } = removal
  const operations = [
    ...deleteConditions(context.socket, layout, conditions, elements),
    ...changes.operations,
    ...addPromotedConditions(context.socket, layout, changes),
    ...removeEmptied(context.socket, changes, (set, count) => hasOnly(context.socket, set, count)),
  ]
  // Adding an existing chain costs less than reading its priority.
  if (operations.length > 0 && !isOld) return [add.chain(layout.dnatChains[0]), ...operations]
  const isCurrent = removeOldChains(context.socket, layout).length === 0
  return [...(isCurrent ? [] : replaceTable(context.socket, layout, [])), ...operations]
}
