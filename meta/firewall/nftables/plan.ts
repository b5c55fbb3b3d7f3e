import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import {
  add,
  create,
  type Element,
  encodeAhead,
  findQueues,
  flush,
  hasRules,
  ifnameValue,
  KeyQueues,
  listComments,
  type Operation,
  QueueChanges,
  type SharedSet,
  withEncoded,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, familyOf, isOwnerOf, ownerComment } from "../../../pkg/types/mod.ts"
import { type FirewallSpec, printNote } from "../spec.ts"
import { admin, adminRule, asked, chains, containers, policed, policyRules, rules, table, within } from "./layout.ts"
import { askedBy, countPoliced, elementOf, findPolicy, planPolicy, type Reader } from "./policies.ts"

interface Place {
  set: SharedSet
  element: Element
}

export function placesOf({ owner, addresses, policy, link }: FirewallSpec, zone: string | undefined): Place[] {
  const comment = ownerComment(owner)
  const note = printNote({ count: addresses.length, link: policy === "open" ? undefined : link, zone })
  return addresses.map((ip) => ({ set: containers[familyOf(ip)], element: { key: [ip], comment, note } }))
}

/**
 * Reports whether all rules exist and are in force: the common rules, the jump to the administrator's chain, and with
 * `hasPolicies` the rules for policies. Chains and sets need no check, because the kernel keeps those that rules use.
 * Tables of earlier releases also pass: they always have the rules for policies.
 */
export function isComplete(socket: Reader, adminChain: string, { hasPolicies }: { hasPolicies: boolean }): boolean {
  const needed = [...(hasPolicies ? policyRules : []), ...rules, adminRule(adminChain)]
  return hasRules(socket, table, needed)
}

/**
 * Plans the whole table. Existing objects stay, except for unknown and unneeded rules in our chains, which are removed.
 */
export function addTable(adminChains: Iterable<string>, options: { hasPolicies: boolean }): Operation[] {
  return withEncoded(tableOperations(adminChains, options), encodedTable)
}

function tableOperations(adminChains: Iterable<string>, { hasPolicies }: { hasPolicies: boolean }): Operation[] {
  const needed = [...(hasPolicies ? policyRules : []), ...rules]
  const sets = [containers[AF_INET], containers[AF_INET6], within, policed, asked["same-bridge"], asked.isolated]
  const names = [...new Set(adminChains)]
  return [
    add.table(table),
    ...sets.map(add.set),
    ...[...chains, ...names.map((name) => ({ table, name }))].map(add.chain),
    ...chains.map(flush.chain),
    ...[...needed, ...names.map(adminRule)].map(add.rule),
  ]
}

const encodedTable = encodeAhead(tableOperations([], { hasPolicies: true }))

/** Returns the administrators' chains to which the table jumps. Throws `NetlinkError`. */
export function listAdminChains(socket: Reader): string[] {
  return listComments(socket, table, admin.name).flatMap(({ comment }) => comment ?? [])
}

/**
 * Returns the elements to add if everything else exists, as is nearly always the case. The kernel refuses them if
 * another container has one of the addresses. Returns undefined if the whole plan is needed; see `planAdd`. Throws
 * `NetlinkError`.
 */
export function planNew(socket: Reader, spec: FirewallSpec, zone?: string): Operation[] | undefined {
  const { policy, link, owner, adminChain } = spec
  const hasPolicies = policy !== "open"
  if (policy === "isolated" || !isComplete(socket, adminChain, { hasPolicies })) return undefined
  if (link && findPolicy(socket, ifnameValue(link.bridge)) !== policy) return undefined
  const wanted = link ? askedBy(policy, link, owner.containerId, ownerComment(owner)) : []
  return [
    ...placesOf(spec, zone).map(({ set, element }) => create.elements(set, [element])),
    ...wanted.map((one) => create.elements(asked[one.policy], [elementOf(one)])),
  ]
}

/**
 * Plans the missing elements of an attachment, and a missing table. Removes this owner's elements at other addresses.
 * Also removes other owners of the same network at these addresses, because a network gives an address to one container
 * at a time. The network's other attachments on the bridge get this attachment's policy. Throws `NetlinkError`.
 */
export function planAdd(
  socket: Reader,
  spec: FirewallSpec,
  { zone, canKeepPortsApart }: { zone: string | undefined; canKeepPortsApart: boolean },
): Operation[] {
  const comment = ownerComment(spec.owner)
  const { network } = spec.owner
  const queues = new KeyQueues(socket)
  const changes = new QueueChanges()
  const places = placesOf(spec, zone)
  for (const { set, element } of places) {
    const isStale = (one: Element) => one.comment === undefined || isOwnerOf(one.comment, network)
    changes.claim(queues.find(set, element.key), element, isStale)
  }
  const isOwn = (one: Element) => one.comment === comment
  for (const queue of findQueues({ socket, queues, sets: Object.values(containers) }, isOwn, [encodeUtf8(comment)])
    .found) {
    if (places.some(({ set, element }) => set === queue.set && String(element.key) === String(queue.key))) continue
    changes.remove(queue, isOwn)
  }
  const policies = planPolicy(socket, spec, canKeepPortsApart)
  const { before, after } = countPoliced(socket, policies)
  const hasPolicies = after > 0
  const isRight = isComplete(socket, spec.adminChain, { hasPolicies }) && (hasPolicies || before === 0)
  return [
    ...(isRight ? [] : addTable([...listAdminChains(socket), spec.adminChain], { hasPolicies })),
    ...changes.operations,
    ...policies,
  ]
}
