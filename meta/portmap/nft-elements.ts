import type { Element, NamedSet } from "../../pkg/nftables/mod.ts"
import { type Family, type Mapping, type Protocol, printEnd, printHostEnd, protocolNumber } from "./mapping.ts"
import type { Layout } from "./nft-layout.ts"
import type { Part } from "./parts.ts"

/** Elements of one set or map. */
export interface Group {
  set: NamedSet
  elements: Element[]
}

/** Where a mapping stands, as the kernel is asked for it. */
export function keyOf(layout: Layout, { protocol, hostPort, hostIp }: Mapping): { set: NamedSet; key: Uint8Array[] } {
  const key = [Uint8Array.of(protocolNumber[protocol]), portBytes(hostPort)]
  return hostIp ? { set: layout.addressPorts, key: [hostIp, ...key] } : { set: layout.ports, key }
}

/** The elements for an address of the container, by set. A set for which there are none is left out. */
export function elementsOf(
  layout: Layout,
  { address, mappings }: Part,
  options: { snat: boolean; masqAll: boolean },
  about: { comment: string; note: string },
): Group[] {
  const groups = new Map<NamedSet, Element[]>()
  for (const mapping of mappings) {
    const { set, key } = keyOf(layout, mapping)
    groups.getOrInsert(set, []).push({ key, value: [address.ip, portBytes(mapping.containerPort)], ...about })
  }
  if (options.snat) {
    const elements = sources(layout.family, address, options.masqAll).map(({ first, last }) => {
      return { key: [first, address.ip], keyEnd: [last, address.ip], ...about }
    })
    groups.set(layout.masqueraded, elements)
  }
  return [...groups].map(([set, elements]) => ({ set, elements }))
}

/** Protocol and port as they stand in the keys of both maps: each part of a key fills whole words. */
export function endBytes({ protocol, hostPort }: Mapping): Uint8Array {
  return Uint8Array.of(protocolNumber[protocol], 0, 0, 0, ...portBytes(hostPort))
}

/** Whose mapped packets are masqueraded: the container itself, its neighbours, this host as 127.0.0.1; or everybody. */
function sources(family: Family, { ip, prefix }: Part["address"], isEvery: boolean) {
  if (isEvery) return [range(ip, 0)]
  const loopback = family === "ip" ? [range(Uint8Array.of(127, 0, 0, 1), 8)] : []
  return [range(ip, prefix), ...loopback]
}

/** The first and the last address of a network. */
function range(ip: Uint8Array, prefix: number): { first: Uint8Array; last: Uint8Array } {
  const hostBits = (at: number) => 0xff >> Math.min(8, Math.max(0, prefix - 8 * at))
  const [first, last] = [ip.slice(), ip.slice()]
  for (const [at, byte] of ip.entries()) {
    first[at] = byte & ~hostBits(at)
    last[at] = byte | hostBits(at)
  }
  return { first, last }
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

const protocols = Object.keys(protocolNumber) as Protocol[]

function number([high = 0, low = 0]: Uint8Array): number {
  return (high << 8) | low
}

/** "8080/tcp to 10.1.0.2:80" */
export function printFound(found: Found): string {
  return `${printHostEnd(found)} to ${printEnd(found.ip, found.port)}`
}

/** Whether two elements of one set have the same key and range, and lead to the same place. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && String(a.keyEnd) === String(b.keyEnd) && String(a.value) === String(b.value)
}
