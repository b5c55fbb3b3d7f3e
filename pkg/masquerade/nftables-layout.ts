import {
  type Chain,
  dataTypes,
  type Element,
  fields,
  masquerade,
  matchPrefix,
  matchSet,
  NF_IP_PRI_NAT_SRC,
  prefixOf,
  type Rule,
  type SharedSet,
  sharedSet,
  type Table,
  tableFamily,
  verdict,
} from "../nftables/mod.ts"
import { AF_INET, AF_INET6, type Cidr, type Family, networkOf } from "../types/mod.ts"
import { byFamily } from "./spec.ts"

/**
 * The objects that masquerade the containers of one address family. All sets are hash sets: adding or removing an
 * element, and looking up a new flow, take the same time with one container as with thousands.
 */
export interface MasqueradeLayout {
  family: Family
  table: Table
  chain: Chain
  /** The addresses whose packets are masqueraded. Several networks with separate bridges may share an address. */
  containers: SharedSet
  /** The last rule of the chain, which does the masquerade. */
  rule: Rule
  /** The sets and rules that `networksOf` has created, by prefix length. */
  networks: Map<number, Networks>
}

/** Exempts packets to the container's own network, by one set and one rule for each prefix length. */
export interface Networks {
  /** The addresses of containers, each with the base address of its network, such as 10.1.0.0. */
  set: SharedSet
  rule: Rule
}

export interface Place {
  set: SharedSet
  element: Element
}

const perFamily = {
  [AF_INET]: {
    type: dataTypes.ipv4,
    source: fields.ipSource,
    destination: fields.ipDestination,
    multicast: { first: 224, prefix: 4 },
  },
  [AF_INET6]: {
    type: dataTypes.ipv6,
    source: fields.ip6Source,
    destination: fields.ip6Destination,
    multicast: { first: 0xff, prefix: 8 },
  },
} as const

const NETWORKS = "networks"
const TO_ITS_NETWORK = "to its own network"

/** The name of the table in each family. */
export const MASQUERADE_TABLE = "cni_masquerade"

/** Returns the layout of a family. It is the same value in all calls, so that its objects are encoded only once. */
export function masqueradeLayout(family: Family): MasqueradeLayout {
  return layouts[family]
}

function makeLayout(family: Family): MasqueradeLayout {
  const { type, source, destination, multicast } = perFamily[family]
  const table = {
    family: tableFamily[family],
    name: MASQUERADE_TABLE,
    comment: "CNI: elements are commented network/containerID/ifname",
  }
  const base = { type: "nat", hook: "postrouting", priority: NF_IP_PRI_NAT_SRC, policy: "accept" } as const
  const chain = { table, name: "postrouting", base }
  const containers = sharedSet({ table, name: "containers", key: [type], comment: "whose traffic is masqueraded" })
  const group = new Uint8Array(type.size)
  group[0] = multicast.first
  const rule = {
    chain,
    statements: [
      matchSet([source], "==", containers),
      matchPrefix(destination, "!=", group, multicast.prefix),
      masquerade,
    ],
    comment: "from containers to everywhere else",
  }
  return { family, table, chain, containers, rule, networks: new Map() }
}

const layouts = { [AF_INET]: makeLayout(AF_INET), [AF_INET6]: makeLayout(AF_INET6) }

/** Returns the set and the rule for networks with this prefix length. The rule must precede the masquerade. */
export function networksOf(layout: MasqueradeLayout, prefix: number): Networks {
  const known = layout.networks.get(prefix)
  if (known) return known
  const { family, table, chain } = layout
  const { type, source, destination } = perFamily[family]
  const set = sharedSet({ table, name: networksName(prefix), key: [type, type], comment: "each with its own network" })
  const statements = [matchSet([source, prefixOf(destination, prefix)], "==", set), verdict("return")]
  const networks = { set, rule: { chain, statements, comment: networksComment(prefix) } }
  layout.networks.set(prefix, networks)
  return networks
}

function networksName(prefix: number): string {
  return `${NETWORKS}_${prefix}`
}

export function networksComment(prefix: number): string {
  return `${TO_ITS_NETWORK}, /${prefix}`
}

export function isNetworksComment(comment: string | undefined): boolean {
  return comment?.startsWith(TO_ITS_NETWORK) === true
}

/** Returns the prefix length in the name of a set for networks; undefined for the name of another set. */
export function prefixIn(name: string): number | undefined {
  const prefix = Number(name.slice(NETWORKS.length + 1))
  return name === networksName(prefix) && Number.isInteger(prefix) ? prefix : undefined
}

export function placesFor(layout: MasqueradeLayout, addresses: readonly Cidr[], comment: string): Place[] {
  return [
    ...addresses.map(({ ip }) => ({ set: layout.containers, element: { key: [ip], comment } })),
    ...addresses.map(({ ip, prefix }) => ({
      set: networksOf(layout, prefix).set,
      element: { key: networkKey(ip, prefix), comment },
    })),
  ]
}

export function networkKey(ip: Uint8Array, prefix: number): Uint8Array[] {
  return [ip, networkOf({ ip, prefix })]
}

export function groupByLayout(addresses: readonly Cidr[]): { layout: MasqueradeLayout; addresses: Cidr[] }[] {
  return byFamily(addresses).map(([family, addresses]) => ({ layout: masqueradeLayout(family), addresses }))
}
