import {
  create,
  type Element,
  type KeyQueue,
  membersOf,
  type Operation,
  QueueChanges,
  type SharedSet,
} from "../../../pkg/nftables/mod.ts"
import { type CniError, isOfContainer, isOwnerOf } from "../../../pkg/types/mod.ts"
import { printHostPort, printIpPort } from "../mapping.ts"
import { portTaken } from "../port-holder.ts"
import { addressIn, readDnat, type TableSpec } from "./elements.ts"

/** The elements for a table that is complete; refused when something is in the way. */
export function planNew({ groups }: TableSpec): Operation[] {
  return groups.map(({ set, elements }) => create.elements(set, elements))
}

/** What is to change in the elements of one table, and what it means. */
export interface AddPlan {
  changes: QueueChanges
  /** What goes or changes: of this owner from before, of earlier holders of its address, and of holders who are gone. */
  stale: Element[]
  /** The ports of the host for which these mappings stand by, as text, and the addresses that they lead to until then. */
  standingBy: string[]
  ahead: Uint8Array[]
}

/**
 * Plans the elements. A port that another attachment of the same container has is shared: this one stands by. `isGone` says
 * of another container's element in the way whether its owner is provably gone. Throws `CniError` that names the holder of a
 * port who is not.
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

/** A key with its set, to compare. */
export function printKey(set: SharedSet, key: readonly Uint8Array[]): string {
  return `${set.name} ${key}`
}

/**
 * Whether an element is of this owner from before, or of a former holder of the container's address: a network gives an
 * address to one container at a time; another network may have the same addresses.
 */
export function isStale({ comment, owner, mapped }: TableSpec, set: SharedSet, found: Element): boolean {
  if (found.comment === comment || (found.comment === undefined && set.value === undefined)) return true
  return isOwnerOf(found.comment ?? "", owner.network) && String(addressIn(set, found)) === String(mapped.address.ip)
}

/** Whether both may want the key: a port of the same container, or an address that another network has too. */
export function mayShare({ owner }: TableSpec, set: SharedSet, found: Element): boolean {
  return set.value === undefined || isOfContainer(found.comment ?? "", owner.containerId)
}

/** The error for a port that an element of another container holds. */
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
