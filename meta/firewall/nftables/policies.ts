import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  create,
  type Element,
  encodeAhead,
  findElement,
  findElements,
  getElement,
  ifnameValue,
  isDormant,
  type NamedSet,
  type Operation,
  remove,
  type Verdict,
  withEncoded,
} from "../../../pkg/nftables/mod.ts"
import { isOwnerOf, ownerComment, sameBytes } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import type { FirewallSpec, HostLink } from "../spec.ts"
import { asked, isolatedPorts, policed, portsChain, portsRule, portsTable, within } from "./layout.ts"

export type Reader = Pick<NetlinkSocket, "get" | "dump">

export interface Asked {
  policy: "same-bridge" | "isolated"
  /** The names of interfaces as rules compare them, padded with zeros. */
  bridge: Uint8Array
  port: Uint8Array
  comment: string | undefined
}

const verdicts = { "same-bridge": { goto: "admit" }, isolated: "drop" } as const satisfies Record<string, Verdict>

/** Returns an attachment's policy request on a link. If the port is unknown, the key has the container's ID instead. */
export function askedBy(policy: Policy, link: HostLink, containerId: string, comment: string): Asked[] {
  const port = ifnameValue(link.port ?? containerId.slice(0, 15))
  return policy === "open" ? [] : [{ policy, bridge: ifnameValue(link.bridge), port, comment }]
}

/** Returns the policy requests, or those with a comment or a bridge in `needles`. Throws `NetlinkError`. */
export function listAsked(socket: Reader, needles?: readonly Uint8Array[]): Asked[] {
  return (["isolated", "same-bridge"] as const).flatMap((policy) =>
    (findElements(socket, asked[policy], needles)?.elements ?? []).map((element) => askedIn(policy, element)),
  )
}

/** Returns the policy in force on a bridge: the verdict for packets between its ports. Throws `NetlinkError`. */
export function findPolicy(socket: Reader, bridge: Uint8Array): Policy {
  const verdict = getElement(socket, within, [bridge, bridge])?.verdict
  if (verdict === undefined) return "open"
  return verdict === "drop" ? "isolated" : "same-bridge"
}

/** Reports whether a bridge is separated from other bridges with a policy. Throws `NetlinkError`. */
export function isPoliced(socket: Reader, bridge: Uint8Array): boolean {
  return getElement(socket, policed, [bridge]) !== undefined
}

/**
 * Plans the replacement of an attachment's request. Other requests of its network on the bridge get the same policy.
 */
export function planPolicy(
  socket: Reader,
  { owner, policy, link }: FirewallSpec,
  canKeepPortsApart: boolean,
): Operation[] {
  const comment = ownerComment(owner)
  const own = listAsked(socket, [encodeUtf8(comment)]).filter((one) => one.comment === comment)
  const [wanted] = link ? askedBy(policy, link, owner.containerId, comment) : []
  const bridge = link && ifnameValue(link.bridge)
  const isWanted = (one: Asked) =>
    wanted?.policy === one.policy && sameBytes(one.bridge, wanted.bridge) && sameBytes(one.port, wanted.port)
  const held = wanted && getElement(socket, asked[wanted.policy], [wanted.bridge, wanted.port])
  const isHeld = held !== undefined && held.comment !== comment
  const isThere = own.some(isWanted)
  const others = bridge ? listOthers(socket, owner.network, bridge, policy) : []
  const moved = others.filter((one) => one.comment !== comment && !(wanted && sameBytes(one.port, wanted.port)))
  return planPolicies(
    socket,
    {
      gone: [...own.filter((one) => !isWanted(one)), ...moved, ...(wanted && isHeld ? [wanted] : [])],
      come: [
        ...(wanted && !isThere ? [wanted] : []),
        ...(policy === "open" ? [] : moved.map((one) => ({ ...one, policy }))),
      ],
    },
    { bridges: bridge ? [bridge] : [], canKeepPortsApart },
  )
}

/** Returns a network's requests on a bridge for other policies, usually none. */
function listOthers(socket: Reader, network: string, bridge: Uint8Array, policy: FirewallSpec["policy"]): Asked[] {
  const present = (["isolated", "same-bridge"] as const).filter(
    (each) => each !== policy && isAskedFor(socket, each, bridge, ({ comment = "" }) => isOwnerOf(comment, network)),
  )
  if (present.length === 0) return []
  return listAsked(socket, [bridge]).filter(
    (one) => one.policy !== policy && sameBytes(one.bridge, bridge) && isOwnerOf(one.comment ?? "", network),
  )
}

interface AskedChanges {
  gone: readonly Asked[]
  come: readonly Asked[]
}

interface PolicyContext {
  /** Bridges whose policy is planned even if no request changes. */
  bridges?: readonly Uint8Array[]
  /** Whether the kernel filters on bridges. */
  canKeepPortsApart: boolean
}

/** Plans changed requests, and on each of their bridges the strictest requested policy. Throws `NetlinkError`. */
export function planPolicies(
  socket: Reader,
  { gone, come }: AskedChanges,
  { bridges = [], canKeepPortsApart }: PolicyContext,
): Operation[] {
  const all = [...gone.map((one) => one.bridge), ...come.map((one) => one.bridge), ...bridges]
  const leaving = new Set(gone.map(keyOf))
  const isAsked = (policy: Asked["policy"], on: Uint8Array) =>
    come.some((one) => one.policy === policy && sameBytes(one.bridge, on)) ||
    isAskedFor(socket, policy, on, (one) => !leaving.has(keyOf(one)))
  return [
    ...gone.map((one) => remove.elements(asked[one.policy], [elementOf(one)])),
    ...come.map((one) => add.elements(asked[one.policy], [elementOf(one)])),
    ...[...new Map(all.map((one) => [String(one), one])).values()].flatMap((on) => {
      const policy = isAsked("isolated", on) ? "isolated" : isAsked("same-bridge", on) ? "same-bridge" : "open"
      return planBridge(socket, on, policy)
    }),
    ...(canKeepPortsApart ? planPorts(socket, gone.filter(isIsolated), come.filter(isIsolated)) : []),
  ]
}

/** Reports whether a policy is requested on a bridge by a request that `counts`. Throws `NetlinkError`. */
export function isAskedFor(
  socket: Reader,
  policy: Asked["policy"],
  bridge: Uint8Array,
  counts: (one: Asked) => boolean = () => true,
): boolean {
  const isSought = (element: Element) => {
    const one = askedIn(policy, element)
    return sameBytes(one.bridge, bridge) && counts(one)
  }
  return findElement(socket, asked[policy], bridge, isSought) !== undefined
}

function isIsolated({ policy }: Asked): boolean {
  return policy === "isolated"
}

function keyOf({ policy, bridge, port }: Asked): string {
  return `${policy} ${bridge} ${port}`
}

/** Encodes a request as an element of the set `asked`. */
export function elementOf({ bridge, port, comment }: Asked): Element {
  return { key: [bridge, port], comment }
}

function askedIn(policy: Asked["policy"], { key, comment }: Element): Asked {
  const [bridge = new Uint8Array(16), port = new Uint8Array(16)] = key
  return { policy, bridge, port, comment }
}

function planBridge(socket: Reader, bridge: Uint8Array, policy: Policy): Operation[] {
  const [between, member] = [getElement(socket, within, [bridge, bridge]), getElement(socket, policed, [bridge])]
  if (policy === "open") {
    const remains = [between && remove.elements(within, [between]), member && remove.elements(policed, [member])]
    return remains.filter((operation) => operation !== undefined)
  }
  const wanted: Element = { key: [bridge, bridge], verdict: verdicts[policy], comment: policy }
  const isRight = between !== undefined && JSON.stringify(between.verdict) === JSON.stringify(wanted.verdict)
  return [
    ...(between && !isRight ? [remove.elements(within, [between])] : []),
    ...(isRight ? [] : [create.elements(within, [wanted])]),
    ...(member ? [] : [create.elements(policed, [{ key: [bridge], comment: policy }])]),
  ]
}

/** Returns the number of bridges with a policy before and after the operations. Throws `NetlinkError`. */
export function countPoliced(socket: Reader, operations: readonly Operation[]): { before: number; after: number } {
  const before = findElements(socket, policed, [])?.count ?? 0
  const changes = operations.filter((one) => one.object === "element" && one.set === policed)
  const removed = changes.filter(({ verb }) => verb === "delete").length
  return { before, after: before + changes.length - 2 * removed }
}

/**
 * Plans the set of isolated containers' ports. Its table is added with the first port and removed with the last. If
 * another program has removed some ports, adds all of them again.
 */
function planPorts(socket: Reader, gone: readonly Asked[], come: readonly Asked[]): Operation[] {
  const count = (set: NamedSet) => findElements(socket, set, [])?.count
  const [present, before = 0] = [count(isolatedPorts), count(asked.isolated)]
  const isWhole = (present ?? 0) === before
  const wake = present !== undefined && isDormant(socket, portsTable) ? [add.table(portsTable)] : []
  if (isWhole && gone.length + come.length === 0) return wake
  if (before + come.length === gone.length) return present === undefined ? [] : [remove.table(portsTable)]
  const leaving = new Set(gone.map(keyOf))
  const others = isWhole ? [] : listAsked(socket).filter((one) => isIsolated(one) && !leaving.has(keyOf(one)))
  const added = [...others, ...come]
  const ports = gone.filter(({ port }) => !added.some((one) => sameBytes(one.port, port)))
  const stale = ports.flatMap(({ port }) => getElement(socket, isolatedPorts, [port]) ?? [])
  return [
    ...(present === undefined ? addPortsTable() : wake),
    ...stale.map((element) => remove.elements(isolatedPorts, [element])),
    ...added.map(({ port, comment }) => add.elements(isolatedPorts, [{ key: [port], comment }])),
  ]
}

/** Reports whether a port is separated from other isolated ports. Throws `NetlinkError`. */
export function isPortApart(socket: Reader, port: Uint8Array): boolean {
  return getElement(socket, isolatedPorts, [port]) !== undefined && !isDormant(socket, portsTable)
}

/** Plans the table that separates isolated ports. */
export function addPortsTable(): Operation[] {
  return withEncoded(portsTableOperations, encodedPortsTable)
}

const portsTableOperations = [add.table(portsTable), add.set(isolatedPorts), add.chain(portsChain), add.rule(portsRule)]
const encodedPortsTable = encodeAhead(portsTableOperations)
