import type { Element, SharedSet } from "../../../pkg/nftables/mod.ts"
import { type Cidr, networkOf } from "../../../pkg/types/mod.ts"
import { type Mapping, type Protocol, protocolNumber, protocols } from "../mapping.ts"
import type { Part } from "../parts.ts"
import type { Layout } from "./layout.ts"

/** Elements of one set or map that owners share. */
export interface SharedGroup {
  set: SharedSet
  elements: Element[]
}

/** Where a mapping stands, as the kernel is asked for it. */
export function keyOf(layout: Layout, { protocol, hostPort, hostIp }: Mapping): { set: SharedSet; key: Uint8Array[] } {
  const key = [Uint8Array.of(protocolNumber[protocol]), portBytes(hostPort)]
  return hostIp ? { set: layout.addressPorts, key: [hostIp, ...key] } : { set: layout.ports, key }
}

/** The elements for an address of the container, by set, without their comments. A set for which there are none is left out. */
export function elementsOf(
  layout: Layout,
  { address, mappings }: Part,
  { snat, masqAll }: { snat: boolean; masqAll: boolean },
): SharedGroup[] {
  const groups = new Map<SharedSet, Element[]>()
  for (const mapping of mappings) {
    const { set, key } = keyOf(layout, mapping)
    groups.getOrInsert(set, []).push({ key, value: [address.ip, portBytes(mapping.containerPort)] })
  }
  for (const { set, key } of snat ? placesOf(layout, address) : []) {
    if (masqAll === (set === layout.everybody)) groups.set(set, [{ key }])
  }
  return [...groups].map(([set, elements]) => ({ set, elements }))
}

/** Where a container's address may stand for its mapped flows to be masqueraded. */
export function placesOf(
  { hairpin, localhost, everybody }: Layout,
  address: Cidr,
): { set: SharedSet; key: Uint8Array[] }[] {
  const { ip } = address
  return [
    { set: hairpin, key: [networkOf(address), ip] },
    ...(localhost ? [{ set: localhost, key: [ip] }] : []),
    { set: everybody, key: [ip] },
  ]
}

function portBytes(port: number): Uint8Array {
  return Uint8Array.of(port >> 8, port & 0xff)
}

/** A mapping as an element of `ports` or `address_ports` has it. */
export interface Found {
  protocol: Protocol
  hostPort: number
  hostIp: Uint8Array | undefined
  /** The container's end. */
  ip: Uint8Array
  port: number
}

/** What an element of `ports` or `address_ports` says. Undefined for what none of ours can be. */
export function readMapping({ key, value }: Element): Found | undefined {
  const [hostIp, protocolByte, portAt] = key.length === 3 ? key : [undefined, ...key]
  const protocol = protocols.find((name) => protocolNumber[name] === protocolByte?.[0])
  if (!protocol || !portAt || !Array.isArray(value)) return undefined
  const [ip, port] = value as readonly Uint8Array[]
  return ip && port ? { protocol, hostPort: number(portAt), hostIp, ip, port: number(port) } : undefined
}

function number([high = 0, low = 0]: Uint8Array): number {
  return (high << 8) | low
}

/** The container's address in an element: where a map leads, and the end of the key of a set. */
export function addressIn(set: SharedSet, { key, value }: Element): Uint8Array | undefined {
  if (set.value === undefined) return key.at(-1)
  return Array.isArray(value) ? (value as readonly Uint8Array[])[0] : undefined
}
