import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
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
  type SharedSet,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import type { Sought } from "../../../pkg/rules/mod.ts"
import { families, type Mapping, mappingsFor } from "../mapping.ts"
import { decodeNote, masqueradeKeys, portKey, readDnat } from "./elements.ts"
import { addTable, removeOldChains, type TableLayout, tableLayout } from "./table.ts"

/**
 * Adds all rules, with the hairpin rules that present elements need and those for `prefixes`, in place of those that an earlier build has
 * made. Elements stay. Throws `NetlinkError`.
 */
export function replaceTable(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  layout: TableLayout,
  prefixes: readonly number[],
): Operation[] {
  const all = new Set([...listHairpinPrefixes(socket, layout), ...prefixes])
  return [...removeOldChains(socket, layout), ...addTable(layout, all)]
}

/** The prefix lengths that elements need a hairpin rule for. */
function listHairpinPrefixes(socket: Pick<NetlinkSocket, "dump">, { hairpin }: TableLayout): number[] {
  const elements = [hairpin, hairpin.standby].flatMap((set) => findElements(socket, set)?.elements ?? [])
  return elements.flatMap(({ note }) => decodeNote(note)?.prefix ?? [])
}

/** What is to go from one family's table. */
export interface TableRemoval {
  layout: TableLayout
  changes: QueueChanges
  /** What is to go, in the sets' keys. */
  elements: readonly Element[]
  conditions: readonly FoundRule[]
  /** Whether no other mapping is left. */
  isLast: boolean
  /** Whether nothing is there but the guards for `route_localnet`. */
  isGuardOnly: boolean
}

/** Finds all elements and conditions that are sought. Throws `NetlinkError`. */
export function findByComment(socket: NetlinkSocket, { isStale, needles }: Sought): TableRemoval[] {
  const isGoing = ({ comment }: { comment?: string | undefined }) => comment !== undefined && isStale(comment)
  return families.flatMap((family): TableRemoval[] => {
    const layout = tableLayout(family)
    const queues = new KeyQueues(socket)
    if (queues.namesIn(layout.table).length === 0) return []
    const { found, others } = findQueues(socket, queues, layout.ownedSets, isGoing, needles)
    const isGuardOnly = !layout.ownedSets.some((set) => queues.has(set))
    const changes = new QueueChanges()
    for (const queue of found) changes.remove(queue, isGoing)
    const elements = found.flatMap((queue) => membersOf(queue).filter(isGoing))
    const conditions = isGuardOnly ? [] : listRules(socket, layout.conditions, needles).filter(isGoing)
    return [{ layout, changes, elements, conditions, isLast: others === 0, isGuardOnly }]
  })
}

/**
 * Finds what an attachment has in the tables by asking for its ports one by one. Undefined when that may not be all: the
 * elements' notes say how many there are. Throws `NetlinkError`.
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

/** Whether a map has no elements besides this owner's. */
function hasNoOther(socket: NetlinkSocket, map: NamedSet, comment: string, own: number): boolean {
  const { count, commented } = sampleElements(socket, map, comment)
  return commented === count && isCount(socket, map, own, count)
}

/** Whether a set has so many elements, and no more. Throws `NetlinkError`. */
export function hasOnly(socket: NetlinkSocket, set: NamedSet, count: number): boolean {
  return isCount(socket, set, count, sampleElements(socket, set, "").count)
}

function isCount(socket: NetlinkSocket, set: NamedSet, count: number, atLeast: number): boolean {
  if (isWholeList(atLeast) || count < atLeast) return atLeast === count
  return findElements(socket, set, [])?.count === count
}
