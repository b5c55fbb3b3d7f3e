import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  atomically,
  commit,
  commitQuickly,
  type Element,
  findQueues,
  type Group,
  hasRulesAsleep,
  KeyQueues,
  listRules,
  membersOf,
  type Operation,
  QueueChanges,
  remove,
  wake,
} from "../../../pkg/nftables/mod.ts"
import { ofOwner } from "../../../pkg/rules/mod.ts"
import type { PortmapSpec } from "../mapping.ts"
import { isHolderGone } from "../port-holder.ts"
import { addLocalnetEntry, type LocalnetEntry, missingLocalnetEntry, undoLocalnetEntry } from "../route-localnet.ts"
import { addPromotedConditions, commitByNft, deleteConditions, printConditions } from "./conditions.ts"
import { type DeleteContext, deleteEmptyTables, deleteHostports } from "./delete.ts"
import { decodeNote, type TableSpec, tableSpecs } from "./elements.ts"
import { replaceTable } from "./find.ts"
import { isStale, mayShare, planAdd, planNew, printKey } from "./plan.ts"
import { isComplete, requiredRules } from "./table.ts"

/** What an ADD has changed. */
export interface TableChanges {
  created: readonly Group[]
  replaced: readonly Group[]
  /** What it has recorded about the setting `route_localnet`. */
  localnet: readonly LocalnetEntry[]
  /** The addresses that the ports lead to for which these mappings stand by. */
  ahead: readonly Uint8Array[]
  /** `promoteNext` is still to be called. */
  mustPromote?: boolean
}

/**
 * Maps the ports, all in one transaction: `nft add element ip cni_hostports ports { tcp . 8080 comment
 * "network/containerID/ifname" : 10.1.0.2 . 80 }` and so on, with table, chains, maps and rules where they are missing.
 * `incomplete` is called before, where rules may be missing. Doing it again changes nothing; what this owner, or one that is deleted, has left in the way is replaced; a port that another
 * attachment of the container has stays there, and this one stands by. Returns what has changed, for `undoAddHostports`.
 * Throws `CniError` that names the holder of a port that is taken, or `NetlinkError`, and then nothing has changed.
 */
export function addHostports(socket: NetlinkSocket, portmap: PortmapSpec, incomplete = () => {}): TableChanges {
  const specs = tableSpecs(portmap)
  let planned = planOf([])
  const plan = () => {
    planned = planOf(specs.map((spec) => planTable(socket, spec)))
    return planned
  }
  if (specs.some(({ conditions }) => conditions !== undefined)) {
    incomplete()
    commitByNft(plan)
    return { ...planned, mustPromote: planned.isStandingBy }
  }
  let localnet: readonly LocalnetEntry[] = []
  let quick: Operation[] | undefined
  const isCompleteAsleep = ({ layout, hairpinPrefix }: TableSpec) =>
    hasRulesAsleep(socket, layout.table, requiredRules(layout, hairpinPrefix))
  if (specs.every(isCompleteAsleep)) {
    localnet = specs.flatMap(({ layout, localnetLink }) => missingLocalnetEntry(socket, layout, localnetLink) ?? [])
    const wakes = specs.map(({ layout }) => wake(layout.table)) // no question whether it is dormant
    quick = [...wakes, ...specs.flatMap(planNew), ...localnet.flatMap(addLocalnetEntry)]
  } else incomplete()
  return commitQuickly(socket, quick, () => plan().operations) ? { ...planned, localnet } : planned
}

/** What is to change in one table, or in all. */
interface Planned extends TableChanges {
  operations: readonly Operation[]
  /** In nft's language. */
  conditions: string
  isStandingBy: boolean
}

function planOf(tables: readonly Planned[]): Planned {
  return {
    operations: tables.flatMap(({ operations }) => operations),
    conditions: tables.map(({ conditions }) => conditions).join(""),
    isStandingBy: tables.some(({ isStandingBy }) => isStandingBy),
    created: tables.flatMap(({ created }) => created),
    replaced: tables.flatMap(({ replaced }) => replaced),
    localnet: tables.flatMap(({ localnet }) => localnet),
    ahead: tables.flatMap(({ ahead }) => ahead),
  }
}

function planTable(socket: NetlinkSocket, spec: TableSpec): Planned {
  const { layout, comment, mapped, groups, conditions, localnetLink } = spec
  const queues = new KeyQueues(socket)
  const keys = groups.flatMap(({ set, elements }) => elements.map(({ key }) => queues.find(set, key)))
  // Only others' ports of the same container, and others' addresses: then this owner has left nothing anywhere.
  const isPlain = keys.every((queue) =>
    membersOf(queue).every((one) => !isStale(spec, queue.set, one) && mayShare(spec, queue.set, one)),
  )
  const needles = [encodeUtf8(comment), mapped.address.ip]
  const isAlone = isPlain && conditions === undefined
  // Where else this owner, and former holders of its address, stand.
  const known = new Set(keys.map(({ set, key }) => printKey(set, key)))
  const elsewhere = (isAlone ? [] : layout.ownedSets)
    .flatMap((set) => findQueues(socket, queues, [set], (one) => isStale(spec, set, one), needles).found)
    .filter(({ set, key }) => !known.has(printKey(set, key)))
  const plan = planAdd(spec, [...keys, ...elsewhere], isGone)
  const entry = missingLocalnetEntry(socket, layout, localnetLink)
  const ownConditions = isAlone
    ? []
    : listRules(socket, layout.conditions, needles).filter((one) => one.comment === comment)
  const { changes, stale, standingBy, ahead } = plan
  const operations = [
    ...missingRules(socket, spec),
    ...deleteConditions(socket, layout, ownConditions, stale),
    ...changes.operations,
    ...addPromotedConditions(socket, layout, changes),
    ...(entry ? addLocalnetEntry(entry) : []),
  ]
  return {
    operations,
    conditions: printConditions(spec, standingBy),
    isStandingBy: standingBy.length > 0,
    created: changes.created,
    replaced: changes.removed,
    localnet: entry ? [entry] : [],
    ahead,
  }
}

function missingRules(socket: NetlinkSocket, { layout, hairpinPrefix }: TableSpec): Operation[] {
  if (isComplete(socket, layout, hairpinPrefix)) return []
  const own = hairpinPrefix === undefined ? [] : [hairpinPrefix]
  if (isComplete(socket, layout, undefined)) return own.map((prefix) => add.rule(layout.hairpinRule(prefix)))
  return replaceTable(socket, layout, own)
}

/** Brings into force what stood by for a mapping that was deleted while nft ran: nft does not know for which rule set it was called. */
export function promoteNext(socket: NetlinkSocket, portmap: PortmapSpec): void {
  atomically(socket, () =>
    tableSpecs(portmap).flatMap(({ layout, groups }) => {
      const queues = new KeyQueues(socket)
      const changes = new QueueChanges()
      for (const { set, elements } of groups) {
        for (const queue of elements.map(({ key }) => queues.find(set, key))) changes.change(queue, membersOf(queue))
      }
      return [...changes.operations, ...addPromotedConditions(socket, layout, changes)]
    }),
  )
}

function isGone({ comment, note }: Element): boolean {
  return isHolderGone(comment, decodeNote(note)?.netns)
}

/** Undoes `addHostports`: puts back what was there, or deletes all that this owner has. Throws `NetlinkError`. */
export function undoAddHostports(context: DeleteContext, { owner, mappings }: PortmapSpec, made: TableChanges): void {
  const { socket } = context
  // Before the mappings, so that nothing is left to guard.
  for (const entry of made.localnet) undoLocalnetEntry(socket, entry)
  if (made.replaced.length === 0) deleteHostports(context, ofOwner(owner), mappings)
  else {
    commit(socket, [
      ...made.created.map(({ set, elements }) => remove.elements(set, elements)),
      ...made.replaced.map(({ set, elements }) => add.elements(set, elements)),
    ])
    deleteEmptyTables(context)
  }
}
