import {
  type Element,
  findElements,
  findQueues,
  getElement,
  type KeyQueue,
  KeyQueues,
  listComments,
  membersOf,
  type Operation,
  QueueChanges,
  remove,
  removeEmptied,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import type { Sought } from "../../../pkg/rules/mod.ts"
import { AF_INET, FAMILIES, familyOf, ownerComment } from "../../../pkg/types/mod.ts"
import { readNote } from "../spec.ts"
import { asked, chains, containers, isolatedPorts, portsTable, table } from "./layout.ts"
import { addTable, listAdminChains } from "./plan.ts"
import { type Asked, askedBy, countPoliced, listAsked, planPolicies, type Reader } from "./policies.ts"

/** The removal of attachments: the operations and the elements that they delete, whose notes name firewalld zones. */
export interface FirewallRemoval {
  operations: Operation[]
  elements: readonly Element[]
}

export interface SoughtAddresses extends Sought {
  /** The addresses of a single attachment according to DEL's hints, which may be wrong. They are looked up first. */
  addresses: readonly Uint8Array[]
}

/**
 * Plans the removal of the elements whose owner `isStale`, and of unused policies. Removes the table with the last
 * address, unless an administrator has added chains with rules to the table. Throws `NetlinkError`.
 */
export function planRemoval(socket: Reader, sought: SoughtAddresses): FirewallRemoval {
  const { isStale, needles } = sought
  const queues = new KeyQueues(socket)
  const isOurs = ({ comment }: Commented) => comment !== undefined && isStale(comment)
  const hinted = findByAddresses(socket, queues, sought)
  const { found, others } = hinted
    ? { found: hinted.found, others: 1 }
    : findQueues({ socket, queues, sets: Object.values(containers) }, isOurs, needles)
  const changes = new QueueChanges()
  for (const queue of found) changes.remove(queue, isOurs)
  const elements = found.flatMap((queue) => membersOf(queue).filter(isOurs))
  if (others === 0) {
    const own = chains.map(({ name }) => name)
    const isKept = listComments(socket, table).some(({ chain }) => !own.includes(chain))
    if (!isKept) return { operations: removeTables(socket, queues), elements }
  }
  const gone = hinted?.gone ?? listAsked(socket, needles).filter(isOurs)
  const context = { canKeepPortsApart: hasPortsTable(socket) }
  const policies = gone.length > 0 ? planPolicies(socket, { gone, come: [] }, context) : []
  return {
    operations: [
      ...changes.operations,
      ...removeEmptied(socket, changes),
      ...policies,
      ...removeUnneeded(socket, policies),
    ],
    elements,
  }
}

/** Plans the removal of the rules for policies if `operations` remove the last policy. */
function removeUnneeded(socket: Reader, operations: readonly Operation[]): Operation[] {
  if (operations.length === 0) return []
  const { before, after } = countPoliced(socket, operations)
  if (before === 0 || after > 0) return []
  return addTable(listAdminChains(socket), { hasPolicies: false })
}

type Commented = { comment?: string | undefined }

/**
 * Finds an attachment's elements by the addresses in DEL's hints and the notes at these addresses, at a cost that does
 * not depend on the number of containers. Returns undefined if it may have missed elements, or if no other attachment
 * is left; the caller must then list all elements.
 */
function findByAddresses(
  socket: Reader,
  queues: KeyQueues,
  { owner, addresses }: SoughtAddresses,
): { found: KeyQueue[]; gone: Asked[] } | undefined {
  if (!owner || addresses.length === 0) return undefined
  const comment = ownerComment(owner)
  const found = addresses.map((ip) => queues.find(containers[familyOf(ip)], [ip]))
  const own = found.flatMap((queue) => membersOf(queue).find((one) => one.comment === comment) ?? [])
  const { count, link } = readNote(own[0]?.note)
  if (count !== found.length || own.length !== count || !hasOthers(socket, comment)) return undefined
  // The policy may have been replaced by another one of its network.
  const gone = (["isolated", "same-bridge"] as const).flatMap((policy) =>
    link ? askedBy(policy, link, owner.containerId, comment) : [],
  )
  const isThere = ({ policy, bridge, port }: Asked) =>
    getElement(socket, asked[policy], [bridge, port])?.comment === comment
  return { found, gone: gone.filter(isThere) }
}

/** Reports whether the beginning of a list contains addresses of other attachments. */
function hasOthers(socket: Reader, comment: string): boolean {
  return FAMILIES.some((family) => {
    const { count, commented } = sampleElements(socket, containers[family], comment)
    return count > commented
  })
}

/**
 * Reports whether the table with isolated ports exists. Kernels without nf_tables for bridges never have this table.
 */
function hasPortsTable(socket: Reader): boolean {
  return findElements(socket, isolatedPorts, []) !== undefined
}

function removeTables(socket: Reader, queues: KeyQueues): Operation[] {
  return [
    ...(queues.has(containers[AF_INET]) ? [remove.table(table)] : []),
    ...(hasPortsTable(socket) ? [remove.table(portsTable)] : []),
  ]
}
