import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  type Chain,
  dataTypes,
  dnatMap,
  dryRun,
  encodeAhead,
  fields,
  flush,
  hasRules,
  ifnameValue,
  masquerade,
  match,
  matchBits,
  matchPrefix,
  matchSet,
  type NamedSet,
  type Operation,
  prefixOf,
  type Rule,
  type SharedSet,
  type Statement,
  sharedSet,
  type Table,
  tableFamily,
  verdict,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../../../pkg/types/mod.ts"

/** The table of each family. */
export const HOSTPORTS_TABLE = "cni_hostports"

/** The set of interfaces whose `route_localnet` was off before. */
export const LOCALNET_LINKS = "localnet_links"

/** The table of one address family: base chains with a few rules, and the maps and sets that these look into. */
export interface TableLayout {
  family: Family
  table: Table
  /** Where a port of every address of the host leads. */
  ports: SharedSet
  /** Where a port of one address of the host leads; these go first. */
  addressPorts: SharedSet
  /**
   * Mapped flows that need the host's address for their answers to come back through it, by the container's address that
   * they lead to: those from the container's own network, which is there too; IPv4 only, those from 127.0.0.0/8; all.
   */
  hairpin: SharedSet
  localhost: SharedSet | undefined
  everybody: SharedSet
  /** All of these: their elements have owners. */
  ownedSets: readonly SharedSet[]
  /** IPv4 only. Interfaces whose `route_localnet` was off before: it is switched off with the last mapping. */
  localnetLinks: NamedSet | undefined
  /**
   * IPv4 only. Interfaces whose `route_localnet` was on before, and it cannot be known who has switched it on: perhaps a
   * former ADD, before all rules were flushed. While it is on, `guards` stay. Made for the first of them.
   */
  localnetGuarded: NamedSet | undefined
  /** IPv4 only. Keep out what `route_localnet` would let in: packets to 127.0.0.0/8, and such as claim to come from there. */
  guards: readonly Rule[]
  /** Of attachments with conditions: each has a rule here that leads packets to its ports to a chain of its own. */
  conditions: Chain
  chains: readonly Chain[]
  rules: readonly Rule[]
  /** The rule for `hairpin` with networks of this prefix length. There is one for each length in use. */
  hairpinRule(prefix: number): Rule
}

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
  const prerouting: Chain = { table, name: "prerouting", ...base("nat", "prerouting", -100) }
  const output: Chain = { table, name: "output", ...base("nat", "output", -100) }
  const postrouting: Chain = { table, name: "postrouting", ...base("nat", "postrouting", 100) }
  const raw: Chain = { table, name: "raw", ...base("filter", "prerouting", -300) }

  const toHost = [match(fields.destinationType, "==", LOCAL), verdict({ jump: hostports.name })]
  const isMapped = matchBits(fields.ctStatus, "dnat")
  const hostPort = [fields.protocol, fields.destinationPort]
  const toEverybody = [isMapped, matchSet([destination], "==", everybody), masquerade]
  const rules: Rule[] = [
    { chain: prerouting, statements: toHost, comment: "from elsewhere" },
    { chain: output, statements: toHost, comment: "from the host itself" },
    { chain: hostports, statements: [verdict({ jump: conditions.name })], comment: "may end here" },
    { chain: hostports, statements: [dnatMap([destination, ...hostPort], addressPorts)], comment: "one address first" },
    { chain: hostports, statements: [dnatMap(hostPort, ports)], comment: "then all" },
    { chain: postrouting, statements: toEverybody, comment: "from everywhere" },
  ]
  const guards: Rule[] = []
  if (isIpv4) {
    const notLoopback = match(fields.inputInterface, "!=", ifnameValue("lo"))
    const toLoopback = matchPrefix(destination, "==", LOOPBACK, 8)
    const fromLoopback = matchPrefix(source, "==", LOOPBACK, 8)
    // Every packet passes these: most are told by one byte of the header, which costs less than an interface's name.
    const guard = (statement: Statement, comment: string) =>
      guards.push({ chain: raw, statements: [statement, notLoopback, verdict("drop")], comment })
    guard(toLoopback, "route_localnet would let them in")
    guard(fromLoopback, "nor as if from the host itself")
    const toLocalhost = [isMapped, fromLoopback, matchSet([destination], "==", localhost), masquerade]
    rules.push(...guards, { chain: postrouting, statements: toLocalhost, comment: "from the host as 127.0.0.1" })
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
    conditions,
    chains: [conditions, hostports, prerouting, output, postrouting, ...(isIpv4 ? [raw] : [])],
    rules,
    hairpinRule: (prefix) => ({
      chain: postrouting,
      statements: [isMapped, matchSet([prefixOf(source, prefix), destination], "==", hairpin), masquerade],
      comment: `from beside the container, /${prefix}`,
    }),
  }
}

/**
 * Adds all of the table, with hairpin rules for these prefix lengths. What is there already stays, except for rules in our
 * chains that are not ours.
 */
export function addTable(layout: TableLayout, hairpinPrefixes: Iterable<number>): Operation[] {
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
for (const layout of [layouts[AF_INET], layouts[AF_INET6]]) encodeAhead(addTable(layout, []))

/** The rules that have to be there, with the one for hairpins of this prefix length if there is one. */
export function requiredRules({ rules, hairpinRule }: TableLayout, hairpinPrefix: number | undefined): readonly Rule[] {
  return hairpinPrefix === undefined ? rules : [...rules, hairpinRule(hairpinPrefix)]
}

/** Whether all rules are there and in force: the kernel keeps the chains and sets for as long as a rule needs them. */
export function isComplete(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  layout: TableLayout,
  hairpinPrefix: number | undefined,
): boolean {
  return hasRules(socket, layout.table, requiredRules(layout, hairpinPrefix))
}

/**
 * Whether this kernel can do what `addHostports` needs for a family: nf_tables with NAT and `fib`. Where nothing is mapped
 * yet it is asked by `dryRun`. Throws `EPERM` without CAP_NET_ADMIN, and what is no answer of the kernel's.
 */
export function canMapPorts(socket: NetlinkSocket, family: Family): boolean {
  const layout = tableLayout(family)
  return dryRun(socket, layout.table, () => (isComplete(socket, layout, undefined) ? [] : addTable(layout, [24])))
}
