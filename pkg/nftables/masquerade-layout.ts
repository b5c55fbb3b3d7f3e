import { dataTypes } from "./data-types.ts"
import { fields } from "./fields.ts"
import type { Chain, Element, NamedSet, Rule, Table } from "./rule-set.ts"
import { masquerade, matchPrefix, matchSet } from "./statements.ts"

/** An address of a container, in the network that it reaches without masquerade: 10.1.0.2, 16. */
export interface MasqueradeAddress {
  /** 4 or 16 bytes, network order. */
  ip: Uint8Array
  prefix: number
}

/** The objects that masquerade the containers of one address family: one rule, and sets for it to look into. */
export interface MasqueradeLayout {
  table: Table
  chain: Chain
  /** Addresses whose traffic is masqueraded. */
  containers: NamedSet
  /** Each address with the network that it reaches directly. */
  networks: NamedSet
  rule: Rule
}

export function masqueradeLayout(family: "ip" | "ip6"): MasqueradeLayout {
  const [type, source, destination, multicast] =
    family === "ip"
      ? ([dataTypes.ipv4, fields.ipSource, fields.ipDestination, { ip: [224, 0, 0, 0], prefix: 4 }] as const)
      : ([dataTypes.ipv6, fields.ip6Source, fields.ip6Destination, { ip: [0xff], prefix: 8 }] as const)
  const table = { family, name: "cni_masquerade", comment: "CNI: elements are commented network/containerID/ifname" }
  const base = { type: "nat", hook: "postrouting", priority: 100, policy: "accept" } as const
  const chain = { table, name: "postrouting", base }
  const containers = { table, name: "containers", key: [type], comment: "whose traffic is masqueraded" }
  const networks = {
    table,
    name: "networks",
    key: [type, type],
    interval: true,
    comment: "what each of them reaches directly",
  } as const
  const multicastIp = new Uint8Array(type.size)
  multicastIp.set(multicast.ip)
  const rule = {
    chain,
    statements: [
      matchSet([source], "==", containers),
      matchPrefix(destination, "!=", multicastIp, multicast.prefix),
      matchSet([source, destination], "!=", networks),
      masquerade,
    ],
    comment: "from containers to beyond their network",
  }
  return { table, chain, containers, networks, rule }
}

/** The element of `containers` for an address. */
export function containerElement({ ip }: MasqueradeAddress, comment: string): Element {
  return { key: [ip], comment }
}

/** The element of `networks` for an address: the address, and all addresses of its network. */
export function networkElement({ ip, prefix }: MasqueradeAddress, comment: string): Element {
  const mask = ip.map((_, index) => 0xff00 >> Math.min(8, Math.max(0, prefix - 8 * index)))
  const first = ip.map((byte, index) => byte & (mask[index] ?? 0))
  const last = ip.map((byte, index) => byte | (~(mask[index] ?? 0) & 0xff))
  return { key: [ip, first], keyEnd: [ip, last], comment }
}

/** Addresses of one family. */
export interface AddressGroup {
  layout: MasqueradeLayout
  addresses: MasqueradeAddress[]
}

/** The addresses by family, each once. Throws `RangeError` for an address that has not 4 or 16 bytes. */
export function groupByLayout(addresses: readonly MasqueradeAddress[]): AddressGroup[] {
  const found = { ip: new Map<string, MasqueradeAddress>(), ip6: new Map<string, MasqueradeAddress>() }
  for (const address of addresses) found[familyOf(address)].set(String(address.ip), address)
  const groups: AddressGroup[] = []
  for (const family of ["ip", "ip6"] as const) {
    if (found[family].size === 0) continue
    const group: AddressGroup = { layout: masqueradeLayout(family), addresses: [] }
    for (const address of found[family].values()) group.addresses.push(address)
    groups.push(group)
  }
  return groups
}

function familyOf({ ip }: MasqueradeAddress): "ip" | "ip6" {
  if (ip.length !== 4 && ip.length !== 16) throw new RangeError(`an address of ${ip.length} bytes: expected 4 or 16`)
  return ip.length === 4 ? "ip" : "ip6"
}
