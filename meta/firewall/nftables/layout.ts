import {
  type Chain,
  clearMark,
  type DataType,
  dataTypes,
  type Field,
  fields,
  match,
  matchBits,
  matchSet,
  type NamedSet,
  type Rule,
  setMark,
  sharedSet,
  type Table,
  verdict,
  verdictMap,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"

/** The name of two tables: one of family inet, and one of family bridge for isolated ports. */
export const FIREWALL_TABLE = "cni_firewall"

/**
 * The mark bit of packets that the table accepts; rules of other programs at the hook `forward` can match it. The bit
 * is set before priority `filter` and cleared after it, so it exists only within that hook.
 */
export const ACCEPT_MARK = 0x1000

/** The table of family inet: base chains with a few rules, and the maps and sets that the rules look up. */
export const table: Table = {
  family: "inet",
  name: FIREWALL_TABLE,
  comment: "CNI: elements are commented network/containerID/ifname",
}

const base = (priority: number) => ({ type: "filter", hook: "forward", priority, policy: "accept" }) as const
const allow: Chain = { table, name: "allow" }
export const admin: Chain = { table, name: "admin" }
const admit: Chain = { table, name: "admit" }
const forward: Chain = { table, name: "forward", base: base(-10) }
const unmark: Chain = { table, name: "unmark", base: base(20) }
export const chains: readonly Chain[] = [allow, admin, admit, forward, unmark]

/** Reports whether a chain of this name is in our table, or is built in or upstream's in iptables. */
export function isOwnChain(name: string): boolean {
  const builtIn = ["INPUT", "FORWARD", "OUTPUT", "CNI-FORWARD", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2"]
  return builtIn.includes(name) || chains.some((chain) => chain.name === name)
}

const containersOf = (name: string, type: DataType) =>
  sharedSet({ table, name, key: [type], comment: "addresses that may be forwarded" })

/**
 * The containers' addresses by family. Accepted are packets from them, replies to them, and packets to published ports.
 */
export const containers = {
  [AF_INET]: containersOf("containers", dataTypes.ipv4),
  [AF_INET6]: containersOf("containers6", dataTypes.ipv6),
} as const

const { ifname } = dataTypes

/** The verdicts for packets between two ports of one bridge. Both interfaces in the key are the bridge. */
export const within: NamedSet = {
  table,
  name: "within",
  key: [ifname, ifname],
  verdicts: true,
  comment: "on one bridge",
}

/** The bridges with a policy. A packet from one of these bridges to another is dropped. */
export const policed: NamedSet = { table, name: "policed", key: [ifname], comment: "bridges isolated from one another" }

const askedFor = (name: string): NamedSet => ({ table, name, key: [ifname, ifname], comment: "requested by ports" })

/** The policy requests, by policy. The key is a bridge and the container's port on it. */
export const asked = { "same-bridge": askedFor("same_bridge"), isolated: askedFor("isolated") } as const

const [input, output] = [fields.inputInterface, fields.outputInterface]

export const rules: readonly Rule[] = [
  { chain: allow, statements: [setMark(ACCEPT_MARK), verdict("accept")], comment: "what filters go by" },
  { chain: forward, statements: [verdict({ goto: admit.name })], comment: "all others" },
  { chain: admit, statements: [verdict({ jump: admin.name })], comment: "the administrator first" },
  ...admitRules("IPv4", {
    family: AF_INET,
    set: containers[AF_INET],
    source: fields.ipSource,
    destination: fields.ipDestination,
  }),
  ...admitRules("IPv6", {
    family: AF_INET6,
    set: containers[AF_INET6],
    source: fields.ip6Source,
    destination: fields.ip6Destination,
  }),
  { chain: admit, statements: [clearMark(ACCEPT_MARK)], comment: "the mark of others does not count" },
  { chain: unmark, statements: [clearMark(ACCEPT_MARK)], comment: "no filter is left" },
]

/** The containers' addresses of one family, and the header fields with the addresses. */
interface Addresses {
  readonly family: typeof AF_INET | typeof AF_INET6
  readonly set: NamedSet
  readonly source: Field
  readonly destination: Field
}

function admitRules(version: string, { family, set, source, destination }: Addresses): Rule[] {
  const rule = (comment: string, of: Field, ...more: Rule["statements"]): Rule => ({
    chain: admit,
    statements: [
      match(fields.family, "==", Uint8Array.of(family)),
      matchSet([of], "==", set),
      ...more,
      verdict({ goto: allow.name }),
    ],
    comment: `${comment}, ${version}`,
  })
  return [
    rule("from containers", source),
    rule("answers", destination, matchBits(fields.ctState, "established", "related")),
    rule("published ports", destination, matchBits(fields.ctStatus, "dnat")),
  ]
}

/**
 * The rules for policies, at the beginning of their chain. They exist only while a bridge has a policy, so that packets
 * need not traverse them otherwise.
 */
export const policyRules: readonly Rule[] = [
  { chain: forward, statements: [verdictMap([input, output], within)], comment: "on one bridge" },
  {
    chain: forward,
    statements: [matchSet([input], "==", policed), matchSet([output], "==", policed), verdict("drop")],
    comment: "from bridge to bridge",
  },
]

/** Returns the rule that jumps to an administrator's chain, with the chain's name as its comment. */
export function adminRule(chain: string): Rule {
  return { chain: admin, statements: [verdict({ jump: chain })], comment: chain }
}

/**
 * The table that isolates the ports of containers. It filters frames that a bridge forwards, which traverse no other
 * table unless br_netfilter is loaded.
 */
export const portsTable: Table = {
  family: "bridge",
  name: FIREWALL_TABLE,
  comment: "CNI: elements are commented as in inet",
}
export const portsChain: Chain = { table: portsTable, name: "forward", base: base(0) }
export const isolatedPorts: NamedSet = {
  table: portsTable,
  name: "isolated",
  key: [ifname],
  comment: "ports isolated from one another",
}
export const portsRule: Rule = {
  chain: portsChain,
  statements: [matchSet([input], "==", isolatedPorts), matchSet([output], "==", isolatedPorts), verdict("drop")],
  comment: "from port to port",
}
