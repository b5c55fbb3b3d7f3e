import { sameBytes } from "../../pkg/types/mod.ts"
import type { Inside, NodeAttachment } from "../node/mod.ts"
import { indexRules } from "./chain-walk.ts"
import { Choices } from "./choices.ts"
import { passHook } from "./filter.ts"
import type { HostKernel } from "./kernel.ts"
import { firstPacket, type Packet } from "./packet.ts"
import type { Stop } from "./packet-path.ts"
import { insideRules, type NodeState } from "./trip.ts"

/** A node's state with the kernel state and rules that many evaluations share. */
export type SharedState = NodeState & { readonly shared: NonNullable<NodeState["shared"]> }

/** Prepares the state that many evaluations of one node share. The caller disposes `kernel`. */
export function share(state: NodeState, kernel: HostKernel): SharedState {
  return { ...state, shared: { kernel, rulesOf: indexRules(state.filter ?? { rules: [] }) } }
}

/** Reports whether the rules that drop a packet also drop it with another address in place of the container's. */
export function dropsAlso({ filter, shared }: SharedState, stop: Stop, own: Uint8Array, other: Uint8Array): boolean {
  const { packet, base, device } = stop
  const replaced = (ip: Uint8Array) => (sameBytes(ip, own) ? other : ip)
  const { source, destination } = packet.original
  const original = { ...packet.original, source: replaced(source), destination: replaced(destination) }
  const rules = { ...shared, bases: filter?.bases ?? [], choices: new Choices() }
  const changed = { ...packet, source: replaced(packet.source), destination: replaced(packet.destination), original }
  return passHook(rules, base.hook, changed, device).verdict === "drop"
}

/** The ports of test packets from and to a container; 0 is an echo. */
const PORTS = [0, 53, 80, 443, 40000] as const

/**
 * Returns the chain in a container that drops all packets from the container, or all packets to it, for one of its
 * addresses. Evaluates only rules in base chains, because no others were read.
 */
export function closedInside(inside: Inside, { ifName }: NodeAttachment, own: readonly Uint8Array[]): Stop | undefined {
  const { filter } = inside
  if (filter === undefined) return undefined
  const rules = insideRules(inside, filter, new Choices())
  for (const base of filter.bases.filter(({ type }) => type !== "nat")) {
    const isSent = base.hook === "output" || base.hook === "postrouting" || base.hook === "egress"
    const isDevice = base.hook === "ingress" || base.hook === "egress"
    if (base.hook === "forward" || (isDevice && base.devices?.includes(ifName) !== true)) continue
    for (const ip of own.filter(({ length }) => base.table.family !== (length === 4 ? "ip6" : "ip"))) {
      const others = [ip.map((byte, at) => (at === ip.length - 1 ? byte ^ 1 : byte)), ip.map((byte) => byte ^ 0x55)]
      const packets = others.flatMap((other) => PORTS.flatMap((port) => packetsOf(isSent, ip, other, port, ifName)))
      const results = packets.map((packet) =>
        passHook({ ...rules, bases: [base] }, base.hook, packet, isDevice ? ifName : undefined),
      )
      const [first] = results
      if (first?.by && results.every(({ verdict }) => verdict === "drop"))
        return { ...first.by, packet: first.packet, isInContainer: true }
    }
  }
  return undefined
}

/** Returns test packets from or to a container, of a new and an established connection: TCP and UDP, or an echo. */
function packetsOf(isSent: boolean, own: Uint8Array, other: Uint8Array, port: number, ifName: string): Packet[] {
  const [source, ip] = isSent ? [own, other] : [other, own]
  return (port === 0 ? (["icmp"] as const) : (["tcp", "udp"] as const)).flatMap((protocol): Packet[] => {
    const first = firstPacket(source, { ip, port, protocol }, isSent ? "" : ifName)
    const packet = { ...first, output: isSent ? ifName : "" }
    return [packet, { ...packet, destinationPort: 0, sourcePort: port, tracking: "established" }]
  })
}
