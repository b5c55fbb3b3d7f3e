import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  atomically,
  commit,
  commitQuickly,
  create,
  type Element,
  findQueues,
  type Group,
  hasRulesEvenIfDormant,
  type KeyQueue,
  KeyQueues,
  listRules,
  membersOf,
  type Operation,
  QueueChanges,
  remove,
  type SharedSet,
  wake,
} from "../../../pkg/nftables/mod.ts"
import { ofOwner } from "../../../pkg/rules/mod.ts"
import { type CniError, isOfContainer, isOwnerOf } from "../../../pkg/types/mod.ts"
import { isHolderGone, type PortmapSpec, portTaken, printHostPort, printIpPort } from "../mapping.ts"
import { addPromotedConditions, commitByNft, deleteConditions, printConditions } from "./conditions.ts"
import { type DeleteContext, deleteEmptyTables, deleteHostports } from "./delete.ts"
import { addressIn, decodeNote, planRules, readDnat, type TableSpec, tableSpecs } from "./elements.ts"
import { addLocalnetEntry, type LocalnetEntry, missingLocalnetEntry, undoLocalnetEntry } from "./localnet-guard.ts"
import { requiredRules } from "./table.ts"

export interface TableChanges {
  created: readonly Group[]
  replaced: readonly Group[]
  /** New records of interfaces that need `route_localnet`. */
  localnet: readonly LocalnetEntry[]
  /** The addresses of the container's other attachments that have some of the ports, so that the new mappings wait. */
  ahead: readonly Uint8Array[]
  /** Whether the caller must call `promoteNext`. */
  mustPromote?: boolean
}

/**
 * Maps the ports in one transaction: `nft add element ip cni_hostports ports { tcp . 8080 comment
 * "network/containerID/ifname" : 10.1.0.2 . 80 }`. Calls `onMissingRules` before it adds missing tables, chains, maps
 * and rules. A repeated call changes nothing. Replaces old mappings of this owner and mappings of deleted containers.
 * If another attachment of the container has a port, that attachment's mapping stays and the new one waits. Returns the
 * changes for `undoAddHostports`. Throws `NetlinkError`, or `CniError` that names the current holder of a port; then
 * nothing has changed.
 */
export function addHostports(socket: NetlinkSocket, portmap: PortmapSpec, onMissingRules = () => {}): TableChanges {
  const specs = tableSpecs(portmap)
  let planned = planOf([])
  const plan = () => {
    planned = planOf(specs.map((spec) => planTable(socket, spec)))
    return planned
  }
  if (specs.some(({ conditions }) => conditions !== undefined)) {
    onMissingRules()
    commitByNft(plan)
    return { ...planned, mustPromote: planned.isStandingBy }
  }
  let localnet: readonly LocalnetEntry[] = []
  let quick: Operation[] | undefined
  const isComplete = ({ layout, hairpinPrefix }: TableSpec) =>
    hasRulesEvenIfDormant(socket, layout.table, requiredRules(layout, hairpinPrefix))
  if (specs.every(isComplete)) {
    localnet = specs.flatMap(({ layout, localnetLink }) => missingLocalnetEntry(socket, layout, localnetLink) ?? [])
    const wakes = specs.map(({ layout }) => wake(layout.table)) // cheaper than reading whether the table is dormant
    quick = [...wakes, ...specs.flatMap(planNew), ...localnet.flatMap(addLocalnetEntry)]
  } else onMissingRules()
  return commitQuickly(socket, quick, () => plan().operations) ? { ...planned, localnet } : planned
}

/** The planned changes of one table, or of all tables. */
interface Planned extends TableChanges {
  operations: readonly Operation[]
  /** The commands for `nft` that add the conditions. */
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
  const { layout, comment, mapped, groups, hairpinPrefix, conditions, localnetLink } = spec
  const queues = new KeyQueues(socket)
  const keys = groups.flatMap(({ set, elements }) => elements.map(({ key }) => queues.find(set, key)))
  // If every key is free or may be shared, this owner has no other elements.
  const isPlain = keys.every((queue) =>
    membersOf(queue).every((one) => !isStale(spec, queue.set, one) && mayShare(spec, queue.set, one)),
  )
  const needles = [encodeUtf8(comment), mapped.address.ip]
  const isAlone = isPlain && conditions === undefined
  // Elements with other keys, of this owner and of former holders of its address.
  const known = new Set(keys.map(({ set, key }) => printKey(set, key)))
  const elsewhere = (isAlone ? [] : layout.ownedSets)
    .flatMap((set) => findQueues({ socket, queues, sets: [set] }, (one) => isStale(spec, set, one), needles).found)
    .filter(({ set, key }) => !known.has(printKey(set, key)))
  const plan = planAdd(spec, [...keys, ...elsewhere], isGone)
  const entry = missingLocalnetEntry(socket, layout, localnetLink)
  const ownConditions = isAlone
    ? []
    : listRules(socket, layout.conditions, needles).filter((one) => one.comment === comment)
  const { changes, stale, standingBy, ahead } = plan
  const operations = [
    ...planRules(socket, layout, hairpinPrefix === undefined ? [] : [hairpinPrefix]).rules,
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

/** Activates mappings that wait for a mapping that was deleted while `nft` ran: `nft` does not notice such changes. */
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

/** Reports whether the owner of an element provably no longer exists. */
export function isGone({ comment, note }: Element): boolean {
  return isHolderGone(comment, decodeNote(note)?.netns)
}

/** Undoes `addHostports`: restores replaced elements, or deletes the owner's if none were. Throws `NetlinkError`. */
export function undoAddHostports(context: DeleteContext, { owner, mappings }: PortmapSpec, made: TableChanges): void {
  const { socket } = context
  // The records are removed before the mappings, so that no record of this ADD keeps the guard.
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

/** Plans the elements for a table that has all rules. The kernel refuses the elements if one of the keys exists. */
export function planNew({ groups }: TableSpec): Operation[] {
  return groups.map(({ set, elements }) => create.elements(set, elements))
}

export interface AddPlan {
  changes: QueueChanges
  /** Elements to remove or replace: of this owner, of former holders of its address, and of deleted owners. */
  stale: Element[]
  /** The host ports whose new mappings wait, as text. */
  standingBy: string[]
  /** The addresses to which the ports in `standingBy` are mapped while the new mappings wait. */
  ahead: Uint8Array[]
}

/**
 * Plans the elements of an attachment. If another attachment of the container has a port, the new mapping waits.
 * `isGone` reports whether another container that holds a port provably no longer exists. Throws `CniError` that names
 * the holder of a port.
 */
export function planAdd(spec: TableSpec, queues: readonly KeyQueue[], isGone: (holder: Element) => boolean): AddPlan {
  const plan: AddPlan = { changes: new QueueChanges(), stale: [], standingBy: [], ahead: [] }
  const elements = new Map<string, Element>()
  for (const { set, elements: own } of spec.groups) for (const one of own) elements.set(printKey(set, one.key), one)
  for (const queue of queues) {
    const own = elements.get(printKey(queue.set, queue.key))
    const after: Element[] = []
    for (const member of membersOf(queue)) {
      const isOwn = member.comment === spec.comment
      if (isOwn) plan.stale.push(member)
      if (isOwn && own) after.push(own)
      else if (isOwn) continue
      else if (isStale(spec, queue.set, member)) plan.stale.push(member)
      else if (!own || mayShare(spec, queue.set, member)) after.push(member)
      else if (isGone(member)) plan.stale.push(member)
      else throw taken(spec, member)
    }
    if (own && !after.includes(own)) after.push(own)
    plan.changes.change(queue, after)
    const [first] = after
    const mapping = own && first !== own ? readDnat(own) : undefined
    if (!mapping || !first) continue
    plan.standingBy.push(printHostPort(mapping))
    const address = addressIn(queue.set, first)
    if (address) plan.ahead.push(address)
  }
  return plan
}

function printKey(set: SharedSet, key: readonly Uint8Array[]): string {
  return `${set.name} ${key}`
}

/**
 * Reports whether an element is to be replaced: it is this owner's, or that of a former holder of the container's
 * address. Only elements of the same network are a former holder's, because another network may use the same addresses.
 */
function isStale({ comment, owner, mapped }: TableSpec, set: SharedSet, found: Element): boolean {
  if (found.comment === comment || (found.comment === undefined && set.value === undefined)) return true
  return isOwnerOf(found.comment ?? "", owner.network) && String(addressIn(set, found)) === String(mapped.address.ip)
}

/**
 * Reports whether two owners may share a key: a port if they are one container's, an address if their networks differ.
 */
export function mayShare({ owner }: TableSpec, set: SharedSet, found: Element): boolean {
  return set.value === undefined || isOfContainer(found.comment ?? "", owner.containerId)
}

export function taken({ layout, mapped, comment }: TableSpec, holder: Element): CniError {
  const found = readDnat(holder)
  const port = found ? printHostPort(found) : `of ${layout.table.name}`
  const ours = mapped.mappings.find((mapping) => printHostPort(mapping) === port)
  return portTaken(
    { port, target: printIpPort(mapped.address.ip, ours?.containerPort ?? 0), owner: comment },
    {
      target: found ? printIpPort(found.containerIp, found.containerPort) : "another container",
      name: holder.comment,
    },
  )
}
