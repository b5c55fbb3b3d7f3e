import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  type Chain,
  dataTypes,
  dnatMap,
  dryRun,
  encodeAhead,
  fields,
  findBase,
  flush,
  hasRules,
  ifnameValue,
  masquerade,
  match,
  matchLabel,
  matchPrefix,
  matchSet,
  type NamedSet,
  NF_IP_PRI_NAT_DST,
  NF_IP_PRI_NAT_SRC,
  NF_IP_PRI_RAW,
  type Operation,
  prefixOf,
  type Rule,
  remove,
  type SharedSet,
  type Statement,
  sharedSet,
  type Table,
  tableFamily,
  verdict,
  withEncoded,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../../../pkg/types/mod.ts"

/** The table of each family. */
export const HOSTPORTS_TABLE = "cni_hostports"

/** The set of interfaces whose `route_localnet` was off before. */
export const LOCALNET_LINKS = "localnet_links"

/** Between the priorities of kube-proxy and firewalld, `dstnat` and `dstnat + 10`. */
const AFTER_SERVICES = 5

/**
 * A hostPort gets no traffic of a service: the translating chains run after kube-proxy's, which has `dstnat` in its
 * modes iptables and nftables (pkg/proxy/nftables/proxier.go). The first chain that translates a flow is the last one
 * for it. They run before those of firewalld, `dstnat + 10` (`NFT_HOOK_OFFSET`, firewall/core/nftables.py), so that a
 * published port takes precedence over a forwarded one.
 */
export const DNAT_PRIORITY = NF_IP_PRI_NAT_DST + AFTER_SERVICES

/**
 * The bit of conntrack's labels that marks flows translated by a map of this table. Flows of a service may have the
 * same destination, and must not be masqueraded. A label belongs to the connection only, while each bit of a packet's
 * mark is used by some program, decides on routes, and may be restored by others. The last of 128, since names in
 * `connlabel.conf` begin with the first.
 */
export const MAPPED_LABEL = 127

/** The table of one address family: base chains with a few rules, and the maps and sets that these look into. */
export interface TableLayout {
  family: Family
  table: Table
  /** The targets of ports of every address of the host. */
  ports: SharedSet
  /** The targets of ports of one address of the host; these go first. */
  addressPorts: SharedSet
  /**
   * Mapped flows that need the host's address so that their answers return through it, by the container's address:
   * those from the container's own network, including itself; IPv4 only, those from 127.0.0.0/8; all.
   */
  hairpin: SharedSet
  localhost: SharedSet | undefined
  everybody: SharedSet
  /** All of these: their elements have owners. */
  ownedSets: readonly SharedSet[]
  /** IPv4 only. Interfaces whose `route_localnet` was off before. It is switched off with the last mapping. */
  localnetLinks: NamedSet | undefined
  /**
   * IPv4 only. Interfaces whose `route_localnet` was on before. It is unknown which program switched it on: perhaps a
   * former ADD, before all rules were flushed. While it is on, `guards` stay. Created with its first element.
   */
  localnetGuarded: NamedSet | undefined
  /**
   * IPv4 only. Rules that drop the packets that `route_localnet` would admit: packets to 127.0.0.0/8, and packets with
   * a source address in it.
   */
  guards: readonly Rule[]
  /** The chain of the guards. */
  raw: Chain
  /** For attachments with conditions: each has a rule here that jumps to its own chain for packets to its ports. */
  conditions: Chain
  chains: readonly Chain[]
  /** Those of them that translate: for packets from elsewhere, and for those of the host itself. */
  dnatChains: readonly [prerouting: Chain, output: Chain]
  rules: readonly Rule[]
  /** The ends of their comments, which the rules of earlier builds have too. */
  endsOfComments: readonly string[]
  /** The rule for `hairpin` with networks of this prefix length. There is one for each length in use. */
  hairpinRule(prefix: number): Rule
}

/** Any prefix length, for the hairpin rule of a dry run. */
const SAMPLE_PREFIX = 24

/** `RTN_LOCAL`: an address of the host. */
const LOCAL = Uint8Array.of(2, 0, 0, 0)
/** 127.0.0.0 */
const LOOPBACK = Uint8Array.of(127, 0, 0, 0)

/** The layout of a family: one value for all calls, so that its objects are encoded once. */
export function tableLayout(family: Family): TableLayout {
  return layouts[family]
}

function makeLayout(family: Family): TableLayout {
  const isIpv4 = family === AF_INET
  const [address, source, destination] = isIpv4
    ? ([dataTypes.ipv4, fields.ipSource, fields.ipDestination] as const)
    : ([dataTypes.ipv6, fields.ip6Source, fields.ip6Destination] as const)
  const { protocol, port, ifname } = dataTypes
  const table: Table = {
    family: tableFamily[family],
    name: HOSTPORTS_TABLE,
    comment: "CNI: elements are commented network/containerID/ifname",
  }
  const set = (name: string, rest: Pick<NamedSet, "key" | "value" | "comment">) => ({ table, name, ...rest })
  const shared = (...of: Parameters<typeof set>) => sharedSet(set(...of))
  const value = [address, port]
  const ports = shared("ports", { key: [protocol, port], value, comment: "of every address of the host" })
  const addressPorts = shared("address_ports", { key: [address, protocol, port], value, comment: "of one address" })
  const hairpin = shared("hairpin", { key: [address, address], comment: "in which network" })
  const localhost = shared("localhost", { key: [address], comment: "reached as 127.0.0.1" })
  const everybody = shared("everybody", { key: [address], comment: "masqAll" })
  const localnetGuarded = set("localnet_guarded", { key: [ifname], comment: "route_localnet was on before" })
  const localnetLinks = set(LOCALNET_LINKS, { key: [ifname], comment: "route_localnet was off before" })

  const base = (type: "nat" | "filter", hook: "prerouting" | "output" | "postrouting", priority: number) =>
    ({ base: { type, hook, priority, policy: "accept" } }) as const
  const conditions: Chain = { table, name: "conditions" }
  const hostports: Chain = { table, name: "hostports" }
  const prerouting: Chain = { table, name: "prerouting", ...base("nat", "prerouting", DNAT_PRIORITY) }
  const output: Chain = { table, name: "output", ...base("nat", "output", DNAT_PRIORITY) }
  const postrouting: Chain = { table, name: "postrouting", ...base("nat", "postrouting", NF_IP_PRI_NAT_SRC) }
  const raw: Chain = { table, name: "raw", ...base("filter", "prerouting", NF_IP_PRI_RAW) }

  const toHost = [match(fields.destinationType, "==", LOCAL), verdict({ jump: hostports.name })]
  const isMapped = matchLabel(MAPPED_LABEL)
  const hostPort = [fields.protocol, fields.destinationPort]
  const toEverybody = [isMapped, matchSet([destination], "==", everybody), masquerade]
  const toOne = dnatMap([destination, ...hostPort], addressPorts, MAPPED_LABEL)
  const toAll = dnatMap(hostPort, ports, MAPPED_LABEL)
  // A rule is known by its comment. These end as in builds before the label, which so take the table for theirs after a
  // way back.
  const rules: Rule[] = [
    { chain: prerouting, statements: toHost, comment: "after services, from elsewhere" },
    { chain: output, statements: toHost, comment: "after services, from the host itself" },
    { chain: hostports, statements: [verdict({ jump: conditions.name })], comment: "may end here" },
    { chain: hostports, statements: [toOne], comment: "one address first" },
    { chain: hostports, statements: [toAll], comment: "then all" },
    { chain: postrouting, statements: toEverybody, comment: "mapped here, from everywhere" },
  ]
  const guards: Rule[] = []
  if (isIpv4) {
    const notLoopback = match(fields.inputInterface, "!=", ifnameValue("lo"))
    const toLoopback = matchPrefix(destination, "==", LOOPBACK, 8)
    const fromLoopback = matchPrefix(source, "==", LOOPBACK, 8)
    // Every packet passes these rules. One byte of the header decides for most packets, which is cheaper than an
    // interface's name.
    const guard = (statement: Statement, comment: string) =>
      guards.push({ chain: raw, statements: [statement, notLoopback, verdict("drop")], comment })
    guard(toLoopback, "route_localnet would let them in")
    guard(fromLoopback, "nor as if from the host itself")
    const toLocalhost = [isMapped, fromLoopback, matchSet([destination], "==", localhost), masquerade]
    const comment = "mapped here, from the host as 127.0.0.1"
    rules.push(...guards, { chain: postrouting, statements: toLocalhost, comment })
  } else {
    const toLoopback = match(destination, "==", new Uint8Array(16).with(15, 1))
    rules.unshift({ chain: hostports, statements: [toLoopback, verdict("return")], comment: "answers would get lost" })
  }
  return {
    family,
    table,
    ports,
    addressPorts,
    hairpin,
    localhost: isIpv4 ? localhost : undefined,
    everybody,
    ownedSets: [ports, addressPorts, hairpin, ...(isIpv4 ? [localhost] : []), everybody],
    localnetLinks: isIpv4 ? localnetLinks : undefined,
    localnetGuarded: isIpv4 ? localnetGuarded : undefined,
    guards,
    raw,
    conditions,
    chains: [conditions, hostports, prerouting, output, postrouting, ...(isIpv4 ? [raw] : [])],
    dnatChains: [prerouting, output],
    rules,
    endsOfComments: rules.map(endOfComment),
    hairpinRule: (prefix) => ({
      chain: postrouting,
      statements: [isMapped, matchSet([prefixOf(source, prefix), destination], "==", hairpin), masquerade],
      comment: `mapped here, from beside the container, /${prefix}`,
    }),
  }
}

/** Returns how the rule's comment ends: those of earlier builds had nothing before. */
function endOfComment({ comment = "" }: Rule): string {
  return comment.replace(/^(after services|mapped here), /, "")
}

/** Removes the chains of an earlier build with another priority, for `addTable`. Throws `NetlinkError`. */
export function removeOldChains(socket: Pick<NetlinkSocket, "get">, { dnatChains }: TableLayout): Operation[] {
  const isOld = (chain: Chain) => {
    const base = findBase(socket, chain)
    return base !== undefined && base.priority !== DNAT_PRIORITY
  }
  const [prerouting, output] = dnatChains
  if (!isOld(prerouting)) return []
  return [prerouting, ...(isOld(output) ? [output] : [])].flatMap((chain) => [flush.chain(chain), remove.chain(chain)])
}

/**
 * Adds the whole table, with hairpin rules for these prefix lengths. Existing objects stay, except for rules in our
 * chains that are not ours. Call `removeOldChains` before it.
 */
export function addTable(layout: TableLayout, hairpinPrefixes: Iterable<number>): Operation[] {
  return withEncoded(tableOperations(layout, hairpinPrefixes), encodedTables[layout.family])
}

function tableOperations(layout: TableLayout, hairpinPrefixes: Iterable<number>): Operation[] {
  const { table, ports, addressPorts, hairpin, everybody, localhost, localnetLinks, conditions, chains, rules } = layout
  const sets = [ports, addressPorts, hairpin, everybody, localhost, localnetLinks].filter((set) => set !== undefined)
  return [
    add.table(table),
    ...sets.map(add.set),
    ...chains.map(add.chain),
    ...chains.filter((chain) => chain !== conditions).map(flush.chain),
    ...[...rules, ...Array.from(hairpinPrefixes, layout.hairpinRule)].map(add.rule),
  ]
}

const layouts = { [AF_INET]: makeLayout(AF_INET), [AF_INET6]: makeLayout(AF_INET6) }
const encodedTables = {
  [AF_INET]: encodeAhead(tableOperations(layouts[AF_INET], [])),
  [AF_INET6]: encodeAhead(tableOperations(layouts[AF_INET6], [])),
}

/**
 * Adds a chain that translates. The kernel refuses the transaction if an earlier build created the chain with another
 * priority.
 */
export function addDnatChain({ family, dnatChains }: TableLayout): Operation[] {
  return withEncoded([add.chain(dnatChains[0])], encodedTables[family])
}

/** Returns the required rules, with the hairpin rule of this prefix length if one is given. */
export function requiredRules({ rules, hairpinRule }: TableLayout, hairpinPrefix: number | undefined): readonly Rule[] {
  return hairpinPrefix === undefined ? rules : [...rules, hairpinRule(hairpinPrefix)]
}

/**
 * Returns whether all rules are in place and in force: the kernel keeps chains and sets as long as a rule needs them.
 */
export function isComplete(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  layout: TableLayout,
  hairpinPrefix: number | undefined,
): boolean {
  return hasRules(socket, layout.table, requiredRules(layout, hairpinPrefix))
}

/** Returns the same, also for the rules of an earlier build. */
export function isCompleteAsEver(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  { table, endsOfComments, hairpinRule }: TableLayout,
  hairpinPrefix: number | undefined,
): boolean {
  const hairpin = hairpinPrefix === undefined ? [] : [endOfComment(hairpinRule(hairpinPrefix))]
  const rules = [...endsOfComments, ...hairpin].map((comment) => ({ comment }))
  return hasRules(socket, table, rules)
}

/**
 * Returns whether this kernel supports what `addHostports` needs for a family: nf_tables with NAT, `fib` and
 * conntrack's labels. Tries it by `dryRun` if no port is mapped yet. Throws `EPERM` without CAP_NET_ADMIN, and errors
 * that are not an answer of the kernel.
 */
export function canMapPorts(socket: NetlinkSocket, family: Family): boolean {
  const layout = tableLayout(family)
  return dryRun(socket, layout.table, () =>
    isComplete(socket, layout, undefined)
      ? []
      : [...removeOldChains(socket, layout), ...addTable(layout, [SAMPLE_PREFIX])],
  )
}
