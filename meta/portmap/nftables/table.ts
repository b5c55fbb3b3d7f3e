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

/** The name of the table in each family. */
export const HOSTPORTS_TABLE = "cni_hostports"

/** The set of interfaces whose `route_localnet` was disabled before the first mapping. */
export const LOCALNET_LINKS = "localnet_links"

/** An offset between kube-proxy's priority, `dstnat`, and firewalld's, `dstnat + 10`. */
const AFTER_SERVICES = 5

/**
 * The priority of the translating chains. The first chain that translates a flow decides. kube-proxy's chains come
 * first, with priority `dstnat` in modes iptables and nftables (pkg/proxy/nftables/proxier.go), so that traffic of a
 * service never reaches a hostPort. firewalld's chains come later, with `dstnat + 10` (`NFT_HOOK_OFFSET`,
 * firewall/core/nftables.py), so that a published port overrides a forwarded one.
 */
export const DNAT_PRIORITY = NF_IP_PRI_NAT_DST + AFTER_SERVICES

/**
 * The bit of conntrack's labels that marks flows translated by this table. Flows of a service may have the same
 * destination, but must not be masqueraded. A bit of the packet's mark would not do, because each is used by some
 * program and may select routes; a label has no other effect. This is the last of 128 bits, because names in
 * `connlabel.conf` begin with the first.
 */
export const MAPPED_LABEL = 127

/** The table of one address family: base chains with a few rules, and the maps and sets that the rules look up. */
export interface TableLayout {
  family: Family
  table: Table
  /** The targets of ports that are mapped on all addresses of the host. */
  ports: SharedSet
  /** The targets of ports that are mapped on one address of the host. Packets are looked up here before `ports`. */
  addressPorts: SharedSet
  /**
   * The containers whose mapped flows need the host's address as source, so that replies return through the host.
   * `hairpin` is for flows from the container's own network, including itself; `localhost`, IPv4 only, for flows from
   * 127.0.0.0/8; `everybody` for all flows.
   */
  hairpin: SharedSet
  localhost: SharedSet | undefined
  everybody: SharedSet
  /** The sets and maps above, whose elements have owners. */
  ownedSets: readonly SharedSet[]
  /** IPv4 only: interfaces whose `route_localnet` was disabled before, and is disabled again with the last mapping. */
  localnetLinks: NamedSet | undefined
  /**
   * IPv4 only: the interfaces whose `route_localnet` was already enabled by an unknown program, perhaps by an ADD
   * before all rules were flushed. `guards` stay while it is enabled. The set is created with its first element.
   */
  localnetGuarded: NamedSet | undefined
  /** IPv4 only: rules that drop packets that `route_localnet` would admit, to or from 127.0.0.0/8. */
  guards: readonly Rule[]
  raw: Chain
  /** The chain for conditions. Its rules jump from an attachment's ports to the attachment's own chain. */
  conditions: Chain
  chains: readonly Chain[]
  /** The chains that translate: `prerouting` for packets from other hosts, `output` for packets of the host itself. */
  dnatChains: readonly [prerouting: Chain, output: Chain]
  rules: readonly Rule[]
  /** The last parts of the rules' comments, which rules of earlier builds have too. */
  endsOfComments: readonly string[]
  /** Returns the rule for `hairpin` in networks of a prefix length. Each prefix length in use needs its own rule. */
  hairpinRule(prefix: number): Rule
}

/** The prefix length of the hairpin rule in a dry run. Any length would do. */
const SAMPLE_PREFIX = 24

/** `RTN_LOCAL`: an address of the host. */
const LOCAL = Uint8Array.of(2, 0, 0, 0)
const LOOPBACK = Uint8Array.of(127, 0, 0, 0)

/** Returns the layout of a family. All calls return the same object, so that its parts are encoded only once. */
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
  // Rules are identified by their comments. These end like those of earlier builds, which set no label, so that after a
  // downgrade such a build recognizes the table.
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
    // Every packet traverses these rules. For most packets one byte of the header decides, which is cheaper than
    // comparing the interface's name first.
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

/** Returns the last part of a rule's comment. In earlier builds, comments had only that part. */
function endOfComment({ comment = "" }: Rule): string {
  return comment.replace(/^(after services|mapped here), /, "")
}

/** Plans the removal of an earlier build's chains with another priority, before `addTable`. Throws `NetlinkError`. */
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
 * Plans the whole table, with hairpin rules for these prefix lengths. Existing objects stay, except for unknown rules
 * in our chains, which are removed. `removeOldChains` must come first.
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

/** Plans a translating chain. The kernel refuses the transaction if an earlier build's chain has another priority. */
export function addDnatChain({ family, dnatChains }: TableLayout): Operation[] {
  return withEncoded([add.chain(dnatChains[0])], encodedTables[family])
}

/** Returns the required rules, including the hairpin rule of this prefix length if given. */
export function requiredRules({ rules, hairpinRule }: TableLayout, hairpinPrefix: number | undefined): readonly Rule[] {
  return hairpinPrefix === undefined ? rules : [...rules, hairpinRule(hairpinPrefix)]
}

/** Reports whether all rules exist and are in force. Then chains and sets exist too, because the rules use them. */
export function isComplete(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  layout: TableLayout,
  hairpinPrefix: number | undefined,
): boolean {
  return hasRules(socket, layout.table, requiredRules(layout, hairpinPrefix))
}

/** Reports whether all rules exist and are in force, in the form of this or an earlier build. */
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
 * Reports whether this kernel supports what `addHostports` needs for a family: nf_tables with NAT, `fib` and conntrack
 * labels. If no port is mapped yet, tries to add the table by `dryRun`. Throws `EPERM` without CAP_NET_ADMIN, and
 * errors that say nothing about the kernel's support.
 */
export function canMapPorts(socket: NetlinkSocket, family: Family): boolean {
  const layout = tableLayout(family)
  return dryRun(socket, layout.table, () =>
    isComplete(socket, layout, undefined)
      ? []
      : [...removeOldChains(socket, layout), ...addTable(layout, [SAMPLE_PREFIX])],
  )
}
