import type { BaseChain, FoundRule } from "../../pkg/nftables/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import type { Mapping } from "./actions.ts"
import { ChainWalk, type FilterQuestions, type Note, placeOf } from "./chain-walk.ts"
import { isAnswer, isTracked, type Packet } from "./packet.ts"

export interface HookResult {
  /** "perhaps": a rule or policy drops the packet, unless an earlier rule that depends on unknown facts accepts it. */
  readonly verdict: "accept" | "drop" | "perhaps"
  /** The chain that drops the packet, and the rule. The rule is undefined if the chain's policy drops it. */
  readonly by?: { readonly base: BaseChain; readonly rule: FoundRule | undefined }
  readonly packet: Packet
  /** The rule or policy that decided, and rules that may have decided. */
  readonly notes: readonly Note[]
  /** The address changes in order, each with its rule. */
  readonly mappings: readonly { readonly mapping: Mapping; readonly rule: string; readonly by: FoundRule }[]
}

/**
 * `NF_IP_PRI_NAT_DST` and `NF_IP_PRI_NAT_SRC`: the effective priorities of chains of type nat. Their own priorities
 * only define their order among each other.
 */
const NAT_PRIORITY: Readonly<Record<string, number>> = { prerouting: -100, output: -100, input: 100, postrouting: 100 }
/** `NF_IP_PRI_CONNTRACK`: the priority at which the kernel looks up the connection. */
const CONNTRACK_PRIORITY = -200

/** Evaluates a hook's base chains by priority, as the kernel does. "ingress" and "egress" are hooks of `device`. */
export function passHook(questions: FilterQuestions, hook: string, sent: Packet, device?: string): HookResult {
  const isSource = hook === "postrouting" || hook === "input"
  const notes: Note[] = []
  const mappings: HookResult["mappings"][number][] = []
  let packet = sent
  let verdict: HookResult["verdict"] = "accept"
  for (const base of basesAt(questions, hook, sent, device)) {
    const isNat = base.type === "nat"
    if (placeAt(hook, base) >= (NAT_PRIORITY[hook] ?? Number.POSITIVE_INFINITY)) packet = translatedBack(packet, hook)
    if (isNat && packet.tracking !== "new") continue
    if (isNat && (isSource ? packet.isSourceMapped : packet.isDestinationMapped)) continue
    const isEarly =
      hook === "ingress" ||
      ((hook === "prerouting" || hook === "output") &&
        base.priority < CONNTRACK_PRIORITY &&
        packet.tracking !== "untracked")
    const walk = new ChainWalk(questions, base.table, isEarly ? { ...packet, tracking: "none" } : packet)
    const decision = walk.base(base)
    packet = walk.packet.tracking === "none" ? { ...walk.packet, tracking: sent.tracking } : walk.packet
    notes.push(...walk.notes)
    if (walk.mapped) mappings.push(walk.mapped)
    if (isNat && walk.mapped && walk.perhapsAccepting.length > 0)
      notes.push({ what: `the packet may stay unchanged: ${walk.perhapsAccepting.join("; ")}`, passes: "perhaps" })
    if (decision === "accept") continue
    const by =
      walk.decidedBy === undefined ? `dropped by the policy of ${placeOf(base)}` : `dropped by ${walk.decidedBy}`
    if (decision === "drop")
      return {
        verdict: "drop",
        by: { base, rule: walk.decidingRule },
        packet,
        notes: [...notes, { what: by, passes: "no" }],
        mappings,
      }
    notes.push({ what: `${by}, unless it is accepted before: ${walk.perhapsAccepting.join("; ")}`, passes: "perhaps" })
    verdict = "perhaps"
  }
  return { verdict, packet: translatedBack(packet, hook), notes, mappings }
}

/** Translates the addresses of an answer back after the hook's NAT, if rules changed those of the connection. */
function translatedBack(packet: Packet, hook: string): Packet {
  const { original } = packet
  if (!isAnswer(packet) || !isTracked(packet)) return packet
  if (hook === "prerouting" || hook === "output") return { ...packet, destination: original.source }
  if (hook !== "postrouting" && hook !== "input") return packet
  return {
    ...packet,
    source: original.destination,
    ...(packet.sourcePort === 0 ? {} : { sourcePort: original.destinationPort }),
  }
}

/** Returns a hook's base chains for a packet, in order. Of chains with the same priority, newer ones come first. */
function basesAt(
  { bases }: Pick<FilterQuestions, "bases">,
  hook: string,
  { source, bridge }: Packet,
  device?: string,
): BaseChain[] {
  const ofHost = familyOf(source) === AF_INET ? ["ip", "inet"] : ["ip6", "inet"]
  const families = bridge !== undefined ? ["bridge"] : device === undefined ? ofHost : ["netdev", "inet"]
  const isThere = ({ devices }: BaseChain) => device === undefined || devices?.includes(device) === true
  return bases
    .filter((base) => base.hook === hook && families.includes(base.table.family) && isThere(base))
    .reverse()
    .sort((a, b) => placeAt(hook, a) - placeAt(hook, b) || a.priority - b.priority)
}

function placeAt(hook: string, { type, priority }: BaseChain): number {
  return type === "nat" ? (NAT_PRIORITY[hook] ?? priority) : priority
}

/** Formats an address with its port, unless the port is 0: "192.0.2.7:443", "[2001:db8::7]:53", "192.0.2.7". */
export function formatPlace(ip: Uint8Array, port: number): string {
  const text = formatIp(ip)
  if (port === 0) return text
  return familyOf(ip) === AF_INET ? `${text}:${port}` : `[${text}]:${port}`
}
