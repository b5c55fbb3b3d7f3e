/** Address families, <linux/socket.h>. */
export const AF_INET = 2
export const AF_INET6 = 10

/** The address families IPv4 and IPv6, as the kernel's numbers. */
export const FAMILIES = [AF_INET, AF_INET6] as const
export type Family = (typeof FAMILIES)[number]

/** Returns the family of an address of 4 or 16 bytes. */
export function familyOf(ip: Uint8Array): Family {
  return ip.length === 4 ? AF_INET : AF_INET6
}

/** An address with its network's prefix length, such as 10.1.2.3/24. It keeps its host bits. */
export interface Cidr {
  ip: Uint8Array
  prefix: number
}

/**
 * Parses "192.0.2.1" into 4 bytes, or "2001:db8::1" into 16 bytes, in network order. Returns `undefined` for anything
 * else. Is as strict as upstream: no leading zeros in IPv4, no zone. An IPv4-mapped address in any notation
 * ("::ffff:192.0.2.1", "0:0:0:0:0:ffff:c000:201") becomes its IPv4 address, because the kernel sends IPv4 for it.
 */
export function parseIp(text: string): Uint8Array | undefined {
  const ip = parseIpv4(text) ?? parseIpv6(text)
  return ip && unmapped(ip)
}

function parseIpv4(text: string): Uint8Array | undefined {
  const octets = text.split(".")
  if (octets.length !== 4) return undefined
  const bytes = new Uint8Array(4)
  for (let at = 0; at < 4; at++) {
    const octet = Number(octets[at]) | 0 // an integer, which the engine prints faster than a float
    if (octet < 0 || octet > 255 || String(octet) !== octets[at]) return undefined // "01", "1e2", " 1", "0x1", ""
    bytes[at] = octet
  }
  return bytes
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::")
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0] ?? "", halves.length === 1)
  const tail = parseGroups(halves[1] ?? "", true)
  if (!head || !tail) return undefined
  const gap = 16 - head.length - tail.length
  if (halves.length === 1 ? gap !== 0 : gap < 2) return undefined // "::" stands for at least one group
  const bytes = new Uint8Array(16)
  bytes.set(head)
  bytes.set(tail, head.length + gap)
  return bytes
}

/** Returns the bytes of "2001:db8", or of "ffff:192.0.2.1" at the end of a text. An empty text has no bytes. */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  const bytes: number[] = []
  const groups = text === "" ? [] : text.split(":")
  for (let index = 0; index < groups.length; index++) {
    const group = groups[index] ?? ""
    if (isEnd && index === groups.length - 1 && group.includes(".")) {
      const ipv4 = parseIpv4(group)
      if (!ipv4) return undefined
      bytes.push(...ipv4)
    } else {
      if (!/^[0-9a-f]{1,4}$/i.test(group)) return undefined
      const value = Number.parseInt(group, 16)
      bytes.push(value >> 8, value & 0xff)
    }
  }
  return bytes
}

/**
 * Formats 4 or 16 bytes. IPv6 has its canonical form (RFC 5952): lower case, and "::" for the first longest run of zero
 * groups. IPv4-mapped addresses end with dotted IPv4. Throws `RangeError` for another length.
 */
export function formatIp(ip: Uint8Array): string {
  if (ip.length === 4) return formatIpv4(ip, 0)
  if (ip.length !== 16) throw new RangeError(`Cannot write an address of ${ip.length} bytes: expected 4 or 16`)
  if (isMapped(ip)) return `::ffff:${formatIpv4(ip, 12)}`
  const groups: string[] = []
  for (let at = 0; at < 16; at += 2) groups.push((((ip[at] ?? 0) << 8) | (ip[at + 1] ?? 0)).toString(16))
  const { start, length } = longestZeroRun(groups)
  if (length < 2) return groups.join(":")
  return `${groups.slice(0, start).join(":")}::${groups.slice(start + length).join(":")}`
}

function formatIpv4(bytes: Uint8Array, at: number): string {
  return `${bytes[at]}.${bytes[at + 1]}.${bytes[at + 2]}.${bytes[at + 3]}`
}

function longestZeroRun(groups: string[]): { start: number; length: number } {
  let longest = { start: 0, length: 0 }
  for (let start = 0; start < groups.length; start++) {
    let length = 0
    while (groups[start + length] === "0") length++
    if (length > longest.length) longest = { start, length }
  }
  return longest
}

/** The number of bits before the IPv4 address in an IPv4-mapped address. */
const MAPPED_BITS = 96

/**
 * Parses "192.0.2.1/24" or "2001:db8::1/64" and keeps the host bits. Returns `undefined` for anything else. The prefix
 * length of an IPv4-mapped address includes its first 96 bits: "::ffff:192.0.2.1/120" is 192.0.2.1/24. Refuses a length
 * below 96, because all addresses of a network have one family.
 */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/")
  const ip = slash < 0 ? undefined : parseIp(text.slice(0, slash))
  const length = text.slice(slash + 1)
  if (!ip || !/^[0-9]{1,3}$/.test(length)) return undefined
  const isMapped = ip.length === 4 && text.includes(":")
  const prefix = Number(length) - (isMapped ? MAPPED_BITS : 0)
  return prefix < 0 || prefix > ip.length * 8 ? undefined : { ip, prefix }
}

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`
const IPV4_ADDRESS = new RegExp(`^${IPV4}$`)
const IPV4_CIDR = new RegExp(`^${IPV4}/(?:3[0-2]|[12]?\\d)$`)

/** Returns an address in normal form, "2001:db8::1" or "192.0.2.1"; `undefined` for any other text. */
export function normalIp(text: string): string | undefined {
  if (IPV4_ADDRESS.test(text)) return text
  const ip = parseIp(text)
  return ip && formatIp(ip)
}

/** Returns an address with prefix length in normal form, with host bits; `undefined` for any other text. */
export function normalCidr(text: string): string | undefined {
  if (IPV4_CIDR.test(text)) return text
  const cidr = parseCidr(text)
  return cidr && formatCidr(cidr)
}

/** Formats an address with its prefix length: "192.0.2.1/24". */
export function formatCidr({ ip, prefix }: Cidr): string {
  return `${formatIp(ip)}/${prefix}`
}

/** Returns an address with the prefix length of a single host: "10.1.0.2/32". */
export function hostCidr(ip: Uint8Array): string {
  return formatCidr({ ip, prefix: 8 * ip.length })
}

/** Reports whether two texts are the same address in any notation, also if one of them is IPv4-mapped. */
export function sameIp(a: string, b: string): boolean {
  const [left, right] = [parseIp(a), parseIp(b)]
  return left !== undefined && right !== undefined && sameBytes(left, right)
}

function isMapped(ip: Uint8Array): boolean {
  if (ip.length !== 16) return false
  for (let at = 0; at < 10; at++) if (ip[at] !== 0) return false
  return ip[10] === 0xff && ip[11] === 0xff
}

/** Returns the 4 bytes of an IPv4-mapped address, which Go stores in 16 bytes. Returns any other address unchanged. */
export function unmapped(ip: Uint8Array): Uint8Array {
  return isMapped(ip) ? ip.subarray(12) : ip
}

/** Returns a network mask of `size` bytes: 255.255.240.0 for a prefix length of 20. */
export function prefixMask(size: number, length: number): Uint8Array {
  const mask = new Uint8Array(size)
  for (let at = 0; 8 * at < length; at++) mask[at] = maskOf(length, at)
  return mask
}

/** Returns byte `at` of the mask of a prefix. The prefix must extend into this byte. */
function maskOf(prefix: number, at: number): number {
  return 0xff00 >> Math.min(8, prefix - 8 * at)
}

/** Returns the network of an address: 10.1.2.0 for 10.1.2.3/24. */
export function networkOf({ ip, prefix }: Cidr): Uint8Array {
  const network = new Uint8Array(ip.length) // the rest are zeros
  for (let at = 0; 8 * at < prefix; at++) network[at] = (ip[at] ?? 0) & maskOf(prefix, at)
  return network
}

/** Reports whether a network contains an address. Returns false for an address of the other family. */
export function contains(network: Cidr, ip: Uint8Array): boolean {
  if (network.ip.length !== ip.length) return false
  for (let at = 0; 8 * at < network.prefix; at++)
    if (((network.ip[at] ?? 0) ^ (ip[at] ?? 0)) & maskOf(network.prefix, at) & 0xff) return false
  return true
}

/** Reports whether an IPv6 address is in fe80::/10. The kernel gives every link such an address. */
export function isLinkLocal(ip: Uint8Array): boolean {
  return ip.length === 16 && ip[0] === 0xfe && ((ip[1] ?? 0) & 0xc0) === 0x80
}

/** Returns the next address. After all ones follows all zeros. */
export function nextAddress(ip: Uint8Array): Uint8Array {
  const next = ip.slice()
  for (let at = next.length - 1; at >= 0; at--) {
    const byte = ((next[at] ?? 0) + 1) & 0xff
    next[at] = byte
    if (byte !== 0) break
  }
  return next
}

/** Returns an address as the key of a map or set. Addresses of different families never have the same key. */
export function keyOf(ip: Uint8Array): string {
  return String.fromCharCode(...ip)
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

/**
 * Parses a hardware address of 6, 8 or 20 bytes (Ethernet, EUI-64, InfiniBand) in one of three notations:
 * "0a:58:0a:01:02:03", "0a-58-0a-01-02-03" or "0a58.0a01.0203". Returns `undefined` for anything else.
 */
export function parseMac(text: string): Uint8Array | undefined {
  const isSpelled = /^[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)$|^[0-9a-f]{4}(?:\.[0-9a-f]{4})+$/i.test(text)
  const digits = isSpelled ? text.replace(/[:.-]/g, "") : ""
  const length = digits.length / 2
  if (length !== 6 && length !== 8 && length !== 20) return undefined
  const mac = new Uint8Array(length)
  for (let at = 0; at < length; at++) mac[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16)
  return mac
}

/** Formats a hardware address as "0a:58:0a:01:02:03". */
export function formatMac(mac: Uint8Array): string {
  const pairs: string[] = []
  for (const byte of mac) pairs.push(byte.toString(16).padStart(2, "0"))
  return pairs.join(":")
}
