import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  type FoundRule,
  listRules,
  type Operation,
  remove,
  removeEmptied,
} from "../../../pkg/nftables/mod.ts"
import { type Owner, ownerComment, staleOf } from "../../../pkg/types/mod.ts"
import { type DnatMapping, families, type Mapping } from "../mapping.ts"
import { guardOnly, readLocalnetRecord, switchLocalnetOff } from "../route-localnet.ts"
import { addPromotedConditions, deleteConditions } from "./conditions.ts"
import { readDnat } from "./elements.ts"
import { findByComment, findByPorts, hasOnly, type TableRemoval } from "./find.ts"
import { familyName } from "./table.ts"

/** What deleting works with. */
export interface DeleteContext {
  socket: NetlinkSocket
  /** Whether iptables needs the interfaces of `localnet_links`; asked when the last mapping goes. */
  isLocalnetNeeded(): boolean
  /** Gets the interfaces whose `route_localnet` could not be switched off with the attachment's mappings; the guard stays. */
  localnetStays(links: readonly string[]): void
}

/**
 * Deletes the mappings of this attachment, found by its name alone, in one transaction; what stands by for them comes into
 * force, and the last one takes the table along. `mappings`, which may be wrong, are where it looks first: if it finds all
 * there, that costs the same with one mapping on the host and with thousands. Returns what was deleted; nothing there is
 * success. Throws `NetlinkError`.
 */
export function deleteHostports(context: DeleteContext, owner: Owner, mappings: readonly Mapping[]): DnatMapping[] {
  const comment = ownerComment(owner)
  const isOwn = (found: string) => found === comment
  return deleteFound(context, () => {
    return findByPorts(context.socket, comment, mappings) ?? findByComment(context.socket, isOwn, [encodeUtf8(comment)])
  })
}

/** Deletes the mappings of all attachments to this network but the valid ones, like `deleteHostports`. */
export function gcHostports(context: DeleteContext, network: string, validOwners: readonly Owner[]): DnatMapping[] {
  return deleteFound(context, () => findByComment(context.socket, staleOf(network, validOwners)))
}

/** Deletes the tables in which no mapping is left. Throws `NetlinkError`. */
export function deleteEmptyTables(context: DeleteContext): void {
  deleteFound(context, () => findByComment(context.socket, () => false, []))
}

function deleteFound(context: DeleteContext, find: () => TableRemoval[]): DnatMapping[] {
  let deleted: DnatMapping[] = []
  let off: readonly string[] = []
  let guard: TableRemoval["layout"] | undefined
  let staying: readonly string[] = []
  const keepOff = (links: readonly string[], layout = guard) => {
    // Before the table goes, and with it the record; when the deletion is refused because a new mapping came in between,
    // it is needed again. Not so when the answer was lost, and the record has gone.
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
  atomically(context.socket, () => {
    const removals = find()
    const mappings = removals.flatMap(({ elements }) => elements.flatMap((one) => readDnat(one) ?? []))
    if (mappings.length > 0) deleted = mappings // by an answer that was lost, if there are none the next time
    if (!removals.some(({ layout, isLast }) => layout.guards.length > 0 && isLast)) keepOff([])
    return removals.flatMap((each) =>
      each.isLast ? deleteTable(context, each, keepOff) : deleteElements(context, each),
    )
  })
  if (staying.length > 0 && deleted.length > 0) context.localnetStays(staying)
  return deleted
}

/** Deletes the table, but for the guards if they are needed still. */
function deleteTable(
  { socket, isLocalnetNeeded }: DeleteContext,
  { layout, isGuardOnly }: TableRemoval,
  keepOff: (links: readonly string[], layout: TableRemoval["layout"]) => readonly string[],
): Operation[] {
  if (layout.guards.length === 0) return [remove.table(layout.table)]
  const { links, guarded } = readLocalnetRecord(socket, layout)
  const isNeeded = links.length > 0 && isLocalnetNeeded()
  const staying = keepOff(isNeeded ? [] : links, layout)
  const recorded = isNeeded ? links : staying
  if (recorded.length === 0 && guarded.length === 0) return [remove.table(layout.table)]
  if (isGuardOnly && recorded.length === links.length) return []
  return [remove.table(layout.table), ...guardOnly(layout, { links: recorded, guarded })]
}

function deleteElements(context: DeleteContext, removal: TableRemoval): Operation[] {
  const { layout, changes, elements, conditions } = removal
  return [
    ...deleteConditions(context.socket, layout, conditions, elements),
    ...changes.operations,
    ...addPromotedConditions(context.socket, layout, changes),
    ...removeEmptied(changes, (set, count) => hasOnly(context.socket, set, count)),
  ]
}

/** Where the Go suite, from v1.6 on, has rules with `backend: nftables`: one for each mapping, and up to two for masquerading. */
export const UPSTREAM_TABLE = "cni_hostport"
const UPSTREAM_CHAINS = ["hostports", "hostip_hostports", "masquerading"] as const

/**
 * Deletes what the Go suite's ADD has left for this attachment, so that a node can change suites with containers running.
 * Its rules have the container's id and nothing else as comment: of a container in several networks only those go that
 * are for `addresses`, and without any all of them, as its own DEL does. Table and chains stay. Nothing there is success.
 * Throws `NetlinkError`.
 */
export function deleteUpstreamHostports(
  socket: NetlinkSocket,
  containerId: string,
  addresses: readonly Uint8Array[],
): void {
  const needles = [encodeUtf8(`${containerId}\0`)]
  atomically(socket, () =>
    families.flatMap((family) =>
      UPSTREAM_CHAINS.flatMap((name) =>
        listRules(socket, { table: { family: familyName[family], name: UPSTREAM_TABLE }, name }, needles)
          .filter(({ comment }) => comment === containerId)
          .filter((rule) => addresses.length === 0 || addresses.some((ip) => mentions(rule, ip)))
          .map((rule) => remove.rule(rule)),
      ),
    ),
  )
}

/** Whether a rule sends packets to an address, or compares one with it. */
function mentions({ expressions }: FoundRule, ip: Uint8Array): boolean {
  return expressions.some(({ name, data }) => {
    if ((name !== "immediate" && name !== "cmp") || data instanceof Uint8Array) return false
    return String(data.data?.value) === String(ip)
  })
}
