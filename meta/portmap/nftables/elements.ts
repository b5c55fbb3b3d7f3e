import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { type NetlinkSocket, u16be } from "../../../pkg/netlink/mod.ts"
import {
  add,
  type Element,
  findElements,
  type Netfilter,
  type Operation,
  type SharedSet,
} from "../../../pkg/nftables/mod.ts"
import { type Cidr, networkOf, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import {
  type DnatMapping,
  families,
  type HostPort,
  type MappedAddress,
  type PortmapSpec,
  printHostPort,
  printIpPort,
  protocolNumber,
  protocols,
} from "../mapping.ts"
import { addTable, isComplete, removeOldChains, type TableLayout, tableLayout } from "./table.ts"

export interface SetElements {
  set: SharedSet
  elements: Element[]
}

/** The elements and rules of one attachment in the table of one family. */
export interface TableSpec {
  layout: TableLayout
  owner: Owner
  /** The comment of the elements, which names the owner. */
  comment: string
  mapped: MappedAddress
  groups: readonly SetElements[]
  /** The prefix length of the container's network if the network needs a hairpin rule, otherwise undefined. */
  hairpinPrefix: number | undefined
  conditions: string | undefined
  localnetLink: string | undefined
}

export function tableSpecs(spec: PortmapSpec): TableSpec[] {
  const { owner, netns, addresses, snat, masqAll, conditions, localnetLink } = spec
  const comment = ownerComment(owner)
  const isConditional = addresses.some(({ family }) => conditions[family].length > 0)
  const bare = addresses.map((mapped) => {
    const layout = tableLayout(mapped.family)
    return { mapped, layout, groups: elementsOf(layout, mapped, { snat, masqAll }) }
  })
  let count = 0
  for (const { groups } of bare) for (const { elements } of groups) count += elements.length
  return bare.map(({ mapped, layout, groups }) => {
    const { family, address } = mapped
    const about = { comment, note: encodeNote({ count, isConditional, prefix: address.prefix, netns }) }
    return {
      layout,
      owner,
      comment,
      mapped,
      groups: groups.map(({ set, elements }) => ({ set, elements: elements.map((one) => ({ ...one, ...about })) })),
      hairpinPrefix: snat && !masqAll ? address.prefix : undefined,
      conditions: conditions[family].join(" ") || undefined,
      localnetLink: layout.localnetLinks ? localnetLink : undefined,
    }
  })
}

/** Returns the elements for an address of the container, by set, without comments. Omits sets without elements. */
export function elementsOf(
  layout: TableLayout,
  { address, mappings }: MappedAddress,
  { snat, masqAll }: { snat: boolean; masqAll: boolean },
): SetElements[] {
  const groups = new Map<SharedSet, Element[]>()
  for (const mapping of mappings) {
    const { set, key } = portKey(layout, mapping)
    groups.getOrInsert(set, []).push({ key, value: [address.ip, u16be.encode(mapping.containerPort)] })
  }
  for (const { set, key } of snat ? masqueradeKeys(layout, address) : []) {
    if (masqAll === (set === layout.everybody)) groups.set(set, [{ key }])
  }
  return [...groups].map(([set, elements]) => ({ set, elements }))
}

export interface SetKey {
  set: SharedSet
  key: Uint8Array[]
}

export function portKey({ ports, addressPorts }: TableLayout, { protocol, hostPort, hostIp }: HostPort): SetKey {
  const key = [Uint8Array.of(protocolNumber[protocol]), u16be.encode(hostPort)]
  return hostIp ? { set: addressPorts, key: [hostIp, ...key] } : { set: ports, key }
}

/** Returns the keys of a container's address in all sets for masquerading. */
export function masqueradeKeys({ hairpin, localhost, everybody }: TableLayout, address: Cidr): SetKey[] {
  const { ip } = address
  return [
    { set: hairpin, key: [networkOf(address), ip] },
    ...(localhost ? [{ set: localhost, key: [ip] }] : []),
    { set: everybody, key: [ip] },
  ]
}

/** Returns the mapping in an element of `ports` or `address_ports`; undefined if it is another program's. */
export function readDnat({ key, value }: Element): DnatMapping | undefined {
  const [hostIp, protocolByte, port] = key.length === 3 ? key : [undefined, ...key]
  const protocol = protocols.find((name) => protocolNumber[name] === protocolByte?.[0])
  const [containerIp, containerPort] = value ?? []
  if (!protocol || !port || !containerIp || !containerPort) return undefined
  return { protocol, hostPort: u16be.decode(port), hostIp, containerIp, containerPort: u16be.decode(containerPort) }
}

/**
 * Returns the container's address in an element: in the value if `set` is a map, at the end of the key if it is a set.
 */
export function addressIn(set: SharedSet, { key, value }: Element): Uint8Array | undefined {
  return set.value === undefined ? key.at(-1) : value?.[0]
}

/** Data beside an element's comment, for DEL, and for ADD of another container with the same port. */
export interface Note {
  /** The number of the attachment's elements in both families. DEL is complete once it has found this many elements. */
  count: number
  /** Whether the mapping has conditions, and a chain for them. */
  isConditional: boolean
  /** The prefix length of the container's network. */
  prefix: number
  /** The path of the container's namespace; undefined if it is too long for a note. */
  netns: string | undefined
}

/** The maximum size of a note in bytes, beside the longest comment. */
const NOTE_BYTES = 120
const CONDITIONAL = "conditional"

export function encodeNote({ count, isConditional, prefix, netns = "" }: Note): string {
  const fields = [String(count), isConditional ? CONDITIONAL : "", String(prefix)]
  const text = [...fields, netns].join("\t")
  return encodeUtf8(text).length <= NOTE_BYTES ? text : [...fields, ""].join("\t")
}

/** Parses a note. Returns undefined without a note, as in a rule set that `nft` has loaded from a file. */
export function decodeNote(text = ""): Note | undefined {
  const [count = "", condition, prefix = "", ...path] = text.split("\t")
  if (!/^\d+$/.test(count) || !/^\d+$/.test(prefix) || path.length === 0) return undefined
  const netns = path.join("\t") || undefined
  return { count: Number(count), isConditional: condition === CONDITIONAL, prefix: Number(prefix), netns }
}

/**
 * Plans all rules, in place of those of an earlier build, with the hairpin rules for existing elements and for
 * `prefixes`. Elements stay. Throws `NetlinkError`.
 */
export function replaceTable(
  socket: Pick<NetlinkSocket, "dump" | "get">,
  layout: TableLayout,
  prefixes: readonly number[],
): Operation[] {
  const all = new Set([...listHairpinPrefixes(socket, layout), ...prefixes])
  return [...removeOldChains(socket, layout), ...addTable(layout, all)]
}

/**
 * Plans the missing rules, with the hairpin rules for `prefixes`. `lacking` are the prefix lengths whose rules are
 * missing, or "all" if a shared rule is missing. Throws `NetlinkError`.
 */
export function planRules(
  socket: NetlinkSocket,
  layout: TableLayout,
  prefixes: readonly number[],
): { rules: Operation[]; lacking: readonly number[] | "all" } {
  if (!isComplete(socket, layout, undefined)) return { rules: replaceTable(socket, layout, prefixes), lacking: "all" }
  const lacking = prefixes.filter((prefix) => !isComplete(socket, layout, prefix))
  return { rules: lacking.map((prefix) => add.rule(layout.hairpinRule(prefix))), lacking }
}

/** Returns the prefix lengths for which existing elements need a hairpin rule. */
function listHairpinPrefixes(socket: Pick<NetlinkSocket, "dump">, { hairpin }: TableLayout): number[] {
  const elements = [hairpin, hairpin.standby].flatMap((set) => findElements(socket, set)?.elements ?? [])
  return elements.flatMap(({ note }) => decodeNote(note)?.prefix ?? [])
}

/** A host port that is mapped in the kernel, for listings. */
export interface PortRule {
  /** "8080/tcp", "203.0.113.1:8080/tcp" */
  readonly hostPort: string
  readonly port: number
  readonly protocol: string
  /** "10.1.0.2:80" */
  readonly to: string
  /** "network/container/interface"; "" if the element has no comment. */
  readonly owner: string
  /** The path of the container's namespace, if it is known. */
  readonly netns?: string
}

/** Returns the host ports mapped in nf_tables, like `nft list map ip cni_hostports ports`. Throws `NetlinkError`. */
export function portRulesIn(socket: Pick<Netfilter, "dump">): PortRule[] {
  return families.flatMap((family) => {
    const { ports, addressPorts } = tableLayout(family)
    const elements = [ports, addressPorts].flatMap((set) => findElements(socket, set)?.elements ?? [])
    return elements.flatMap((element): PortRule[] => {
      const mapping = readDnat(element)
      if (mapping === undefined) return []
      const { netns } = decodeNote(element.note) ?? {}
      return [
        {
          hostPort: printHostPort(mapping),
          port: mapping.hostPort,
          protocol: mapping.protocol,
          to: printIpPort(mapping.containerIp, mapping.containerPort),
          owner: element.comment ?? "",
          ...(netns === undefined ? {} : { netns }),
        },
      ]
    })
  })
}
