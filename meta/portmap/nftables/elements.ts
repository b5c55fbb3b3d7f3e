import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { Element, SharedSet } from "../../../pkg/nftables/mod.ts"
import { type Cidr, networkOf, type Owner, ownerComment } from "../../../pkg/types/mod.ts"
import {
  type DnatMapping,
  type HostPort,
  type MappedAddress,
  type PortmapSpec,
  protocolNumber,
  protocols,
} from "../mapping.ts"
import { type TableLayout, tableLayout } from "./table.ts"

/** Elements of one set or map. */
export interface SetElements {
  set: SharedSet
  elements: Element[]
}

/** What one attachment is to have in the table of one family. */
export interface TableSpec {
  layout: TableLayout
  owner: Owner
  /** The owner, as the elements have it. */
  comment: string
  mapped: MappedAddress
  groups: readonly SetElements[]
  /** The length for which there has to be a rule for the container's own network; undefined for none. */
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
  const count = bare.flatMap(({ groups }) => groups.flatMap(({ elements }) => elements)).length
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

/** The elements for an address of the container, by set, without their comments. A set for which there are none is left out. */
export function elementsOf(
  layout: TableLayout,
  { address, mappings }: MappedAddress,
  { snat, masqAll }: { snat: boolean; masqAll: boolean },
): SetElements[] {
  const groups = new Map<SharedSet, Element[]>()
  for (const mapping of mappings) {
    const { set, key } = portKey(layout, mapping)
    groups.getOrInsert(set, []).push({ key, value: [address.ip, encodePort(mapping.containerPort)] })
  }
  for (const { set, key } of snat ? masqueradeKeys(layout, address) : []) {
    if (masqAll === (set === layout.everybody)) groups.set(set, [{ key }])
  }
  return [...groups].map(([set, elements]) => ({ set, elements }))
}

/** The key of an element, in its set or map. */
export interface SetKey {
  set: SharedSet
  key: Uint8Array[]
}

/** Where a port of the host stands. */
export function portKey({ ports, addressPorts }: TableLayout, { protocol, hostPort, hostIp }: HostPort): SetKey {
  const key = [Uint8Array.of(protocolNumber[protocol]), encodePort(hostPort)]
  return hostIp ? { set: addressPorts, key: [hostIp, ...key] } : { set: ports, key }
}

/** Where a container's address may stand for its mapped flows to be masqueraded. */
export function masqueradeKeys({ hairpin, localhost, everybody }: TableLayout, address: Cidr): SetKey[] {
  const { ip } = address
  return [
    { set: hairpin, key: [networkOf(address), ip] },
    ...(localhost ? [{ set: localhost, key: [ip] }] : []),
    { set: everybody, key: [ip] },
  ]
}

/** What an element of `ports` or `address_ports` says. Undefined for what none of ours can be. */
export function readDnat({ key, value }: Element): DnatMapping | undefined {
  const [hostIp, protocolByte, port] = key.length === 3 ? key : [undefined, ...key]
  const protocol = protocols.find((name) => protocolNumber[name] === protocolByte?.[0])
  const [containerIp, containerPort] = value ?? []
  if (!protocol || !port || !containerIp || !containerPort) return undefined
  return { protocol, hostPort: decodePort(port), hostIp, containerIp, containerPort: decodePort(containerPort) }
}

/** The container's address in an element: where a map leads, and the end of the key of a set. */
export function addressIn(set: SharedSet, { key, value }: Element): Uint8Array | undefined {
  return set.value === undefined ? key.at(-1) : value?.[0]
}

function encodePort(port: number): Uint8Array {
  return Uint8Array.of(port >> 8, port & 0xff)
}

function decodePort([high = 0, low = 0]: Uint8Array): number {
  return (high << 8) | low
}

/** What is kept beside the comment on each element, for DEL and for those who want the same port. */
export interface Note {
  /** How many elements the attachment has in both families: a DEL that has found so many has found all. */
  count: number
  /** Whether it has conditions, and with them a chain of its own. */
  isConditional: boolean
  /** The prefix length of the container's network. */
  prefix: number
  /** The path of the container's namespace; undefined when it is too long to be kept. */
  netns: string | undefined
}

/** Bytes that there is room for. */
const NOTE_BYTES = 120
const CONDITIONAL = "conditional"

export function encodeNote({ count, isConditional, prefix, netns = "" }: Note): string {
  const fields = [String(count), isConditional ? CONDITIONAL : "", String(prefix)]
  const text = [...fields, netns].join("\t")
  return encodeUtf8(text).length <= NOTE_BYTES ? text : [...fields, ""].join("\t")
}

/** Undefined for what `encodeNote` has not written: a rule set that `nft` has loaded from a file has no notes. */
export function decodeNote(text = ""): Note | undefined {
  const [count = "", condition, prefix = "", ...path] = text.split("\t")
  if (!/^\d+$/.test(count) || !/^\d+$/.test(prefix) || path.length === 0) return undefined
  const netns = path.join("\t") || undefined
  return { count: Number(count), isConditional: condition === CONDITIONAL, prefix: Number(prefix), netns }
}
