import {
  type Chain,
  clearMark,
  dataTypes,
  type Field,
  fields,
  match,
  matchBits,
  matchSet,
  type NamedSet,
  type Rule,
  type SharedSet,
  setMark,
  sharedSet,
  type Table,
  verdict,
  verdictMap,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, FAMILIES, type Family } from "../../../pkg/types/mod.ts"

/** Of family inet; the ports of isolated bridges are in one of family bridge with the same name. */
export const FIREWALL_TABLE = "cni_firewall"

/**
 * The bit of a packet's mark that says that the table lets it through: rules of others at the same hook can go by it. Set and
 * cleared within the hook `forward`, around the priority of filters.
 */
export const ACCEPT_MARK = 0x1000

/** The table: base chains with a few rules, and the maps and sets that these look into. */
export interface FirewallLayout {
  table: Table
  /** Addresses that are let out, with the answers to them, and in where a port is published. By family. */
  containers: Readonly<Record<Family, SharedSet>>
  /** Between two interfaces, which are the same bridge: what happens to packets. */
  within: NamedSet
  /** Bridges with a policy: from one to another nothing passes. */
  policed: NamedSet
  /** Who asks for which policy: a bridge, and the container's port on it. */
  asked: Readonly<Record<"same-bridge" | "isolated", NamedSet>>
  chains: readonly Chain[]
  rules: readonly Rule[]
  /** Stand before the others of their chain while a bridge has a policy: no packet pays for policies that there are not. */
  policyRules: readonly Rule[]
  /** Where the jumps to administrators' chains are. */
  admin: Chain
  /** The rule that jumps to a chain of the administrator, and has its name for a comment. */
  adminRule(chain: string): Rule
}

const ownChains = ["allow", "admin", "admit", "forward", "unmark"] as const

/** Whether a chain of this name is the table's own, or of the packet filters' own in upstream's rules. */
export function isOwnChain(name: string): boolean {
  const builtIn = ["INPUT", "FORWARD", "OUTPUT", "CNI-FORWARD", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2"]
  return [...ownChains, ...builtIn].includes(name)
}

const perFamily = {
  [AF_INET]: {
    name: "containers",
    type: dataTypes.ipv4,
    family: Uint8Array.of(2),
    source: fields.ipSource,
    destination: fields.ipDestination,
  },
  [AF_INET6]: {
    name: "containers6",
    type: dataTypes.ipv6,
    family: Uint8Array.of(10),
    source: fields.ip6Source,
    destination: fields.ip6Destination,
  },
} as const

/** The layout: one value for all calls, so that its objects are encoded once. */
export function firewallLayout(): FirewallLayout {
  return layout
}

function makeLayout(): FirewallLayout {
  const table: Table = {
    family: "inet",
    name: FIREWALL_TABLE,
    comment: "CNI: elements are commented network/containerID/ifname",
  }
  const base = (priority: number) => ({
    base: { type: "filter", hook: "forward", priority, policy: "accept" } as const,
  })
  const chain = (name: (typeof ownChains)[number], more: object = {}): Chain => ({ table, name, ...more })
  const [allow, admin, admit] = [chain("allow"), chain("admin"), chain("admit")]
  const [forward, unmark] = [chain("forward", base(-10)), chain("unmark", base(20))]
  const { ifname } = dataTypes
  const within = { table, name: "within", key: [ifname, ifname], verdicts: true, comment: "on one bridge" } as const
  const policed = { table, name: "policed", key: [ifname], comment: "bridges apart from one another" }
  const asked = (name: string, by: string) => ({ table, name, key: [ifname, ifname], comment: `asked for by ${by}` })
  const containers = (family: Family) => {
    const { name, type } = perFamily[family]
    return sharedSet({ table, name, key: [type], comment: "what may be forwarded" })
  }
  const sets = { [AF_INET]: containers(AF_INET), [AF_INET6]: containers(AF_INET6) }
  const [input, output] = [fields.inputInterface, fields.outputInterface]
  return {
    table,
    containers: sets,
    within,
    policed,
    asked: { "same-bridge": asked("same_bridge", "ports"), isolated: asked("isolated", "ports") },
    chains: [allow, admin, admit, forward, unmark],
    rules: [
      { chain: allow, statements: [setMark(ACCEPT_MARK), verdict("accept")], comment: "what filters go by" },
      { chain: forward, statements: [verdict({ goto: admit.name })], comment: "all others" },
      { chain: admit, statements: [verdict({ jump: admin.name })], comment: "the administrator first" },
      ...FAMILIES.flatMap((family) => admitRules(admit, allow, family, sets[family])),
      { chain: admit, statements: [clearMark(ACCEPT_MARK)], comment: "the mark of others does not count" },
      { chain: unmark, statements: [clearMark(ACCEPT_MARK)], comment: "no filter is left" },
    ],
    policyRules: [
      { chain: forward, statements: [verdictMap([input, output], within)], comment: "on one bridge" },
      {
        chain: forward,
        statements: [matchSet([input], "==", policed), matchSet([output], "==", policed), verdict("drop")],
        comment: "from bridge to bridge",
      },
    ],
    admin,
    adminRule: (name) => ({ chain: admin, statements: [verdict({ jump: name })], comment: name }),
  }
}

function admitRules(admit: Chain, allow: Chain, family: Family, containers: NamedSet): Rule[] {
  const { family: number, source, destination } = perFamily[family]
  const version = family === AF_INET ? "IPv4" : "IPv6"
  const rule = (comment: string, of: Field, ...more: Rule["statements"]): Rule => ({
    chain: admit,
    statements: [
      match(fields.family, "==", number),
      matchSet([of], "==", containers),
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
 * The table that keeps the ports of isolated containers apart where their bridge forwards frames: these pass no other table but
 * with br_netfilter.
 */
export function portsLayout(): typeof ports {
  return ports
}

function makePortsLayout() {
  const table: Table = { family: "bridge", name: FIREWALL_TABLE, comment: "CNI: elements are commented as in inet" }
  const base = { type: "filter", hook: "forward", priority: 0, policy: "accept" } as const
  const chain: Chain = { table, name: "forward", base }
  const isolated = { table, name: "isolated", key: [dataTypes.ifname], comment: "ports apart from one another" }
  const [input, output] = [fields.inputInterface, fields.outputInterface]
  const statements = [matchSet([input], "==", isolated), matchSet([output], "==", isolated), verdict("drop")]
  return { table, chain, isolated, rule: { chain, statements, comment: "from port to port" } }
}

const layout = makeLayout()
const ports = makePortsLayout()
