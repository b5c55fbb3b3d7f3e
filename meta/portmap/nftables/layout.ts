import {
  type Chain,
  dataTypes,
  dnatMap,
  fields,
  ifnameValue,
  masquerade,
  match,
  matchBits,
  matchPrefix,
  matchSet,
  type NamedSet,
  prefixOf,
  type Rule,
  type SharedSet,
  sharedSet,
  type Table,
  verdict,
} from "../../../pkg/nftables/mod.ts"
import type { Family } from "../mapping.ts"

/** The objects of nf_tables that map the host's ports of one address family: a few rules, and maps for them to look into. */
export interface Layout {
  family: Family
  table: Table
  /** Where a port of every address of the host leads. */
  ports: SharedSet
  /** Where a port of one address of the host leads; these go first. */
  addressPorts: SharedSet
  /**
   * Mapped flows that need the host's address for their answers to come back through it, by what they lead to: those from
   * the container's own network, which is there too; IPv4 only, those from 127.0.0.0/8; all.
   */
  hairpin: SharedSet
  localhost: SharedSet | undefined
  everybody: SharedSet
  /** IPv4 only. Interfaces whose `route_localnet` was off before: it is switched off with the last mapping. */
  localnetLinks: NamedSet | undefined
  /**
   * IPv4 only. Interfaces whose `route_localnet` was on before, and it cannot be known who has switched it on: perhaps a
   * former ADD, before all rules were flushed. While it is on, `guard` stays. Made for the first of them.
   */
  localnetGuarded: NamedSet | undefined
  /** IPv4 only. Keeps out what `route_localnet` would let in. */
  guard: Rule | undefined
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

/** The table of each family. */
export const HOSTPORTS_TABLE = "cni_hostports"

export function layoutOf(family: Family): Layout {
  const isIpv4 = family === "ip"
  const [address, source, destination] = isIpv4
    ? ([dataTypes.ipv4, fields.ipSource, fields.ipDestination] as const)
    : ([dataTypes.ipv6, fields.ip6Source, fields.ip6Destination] as const)
  const { protocol, port, ifname } = dataTypes
  const table: Table = {
    family,
    name: HOSTPORTS_TABLE,
    comment: "CNI: elements are commented network/containerID/ifname",
  }
  const set = (name: string, rest: Pick<NamedSet, "key" | "value" | "comment">) => ({
    table,
    name,
    ...rest,
  })
  const shared = (...of: Parameters<typeof set>) => sharedSet(set(...of))
  const end = [address, port]
  const ports = shared("ports", { key: [protocol, port], value: end, comment: "of every address of the host" })
  const addressPorts = shared("address_ports", {
    key: [address, protocol, port],
    value: end,
    comment: "of one address",
  })
  const hairpin = shared("hairpin", { key: [address, address], comment: "in which network" })
  const localhost = shared("localhost", { key: [address], comment: "reached as 127.0.0.1" })
  const everybody = shared("everybody", { key: [address], comment: "masqAll" })
  const localnetGuarded = set("localnet_guarded", { key: [ifname], comment: "route_localnet was on before" })
  const localnetLinks = set("localnet_links", { key: [ifname], comment: "route_localnet was off before" })

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
  const ends = [fields.protocol, fields.destinationPort]
  const rules: Rule[] = [
    { chain: prerouting, statements: toHost, comment: "from elsewhere" },
    { chain: output, statements: toHost, comment: "from the host itself" },
    { chain: hostports, statements: [verdict({ jump: conditions.name })], comment: "may end here" },
    { chain: hostports, statements: [dnatMap([destination, ...ends], addressPorts)], comment: "one address first" },
    { chain: hostports, statements: [dnatMap(ends, ports)], comment: "then all" },
    {
      chain: postrouting,
      statements: [isMapped, matchSet([destination], "==", everybody), masquerade],
      comment: "from everywhere",
    },
  ]
  let guard: Rule | undefined
  if (isIpv4) {
    const notLoopback = match(fields.inputInterface, "!=", ifnameValue("lo"))
    const toLoopback = matchPrefix(destination, "==", LOOPBACK, 8)
    const statements = [notLoopback, toLoopback, verdict("drop")]
    const fromLoopback = matchPrefix(source, "==", LOOPBACK, 8)
    const toLocalhost = [isMapped, fromLoopback, matchSet([destination], "==", localhost), masquerade]
    guard = { chain: raw, statements, comment: "route_localnet would let them in" }
    rules.push(guard, { chain: postrouting, statements: toLocalhost, comment: "from the host as 127.0.0.1" })
  } else {
    const isLoopback = match(destination, "==", new Uint8Array(16).with(15, 1))
    rules.unshift({ chain: hostports, statements: [isLoopback, verdict("return")], comment: "answers would get lost" })
  }
  return {
    family,
    table,
    ports,
    addressPorts,
    hairpin,
    localhost: isIpv4 ? localhost : undefined,
    everybody,
    localnetLinks: isIpv4 ? localnetLinks : undefined,
    localnetGuarded: isIpv4 ? localnetGuarded : undefined,
    guard,
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
