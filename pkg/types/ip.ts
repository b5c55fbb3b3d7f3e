// Written with plain loops: the first regular expression, `every` or `[...bytes]` of a process costs 0.02 to 0.15 ms.

const DOT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const A = 0x61
const F = 0x66

/** An address with the length of its network's prefix, like 10.1.2.3/24; host bits are kept. */
export interface Cidr {
  ip: Uint8Array
  prefix: number
}

/**
 * Reads "192.0.2.1" into 4 bytes or "2001:db8::1" into 16, in network order; `undefined` for anything else. Strict as
 * upstream: no leading zeros in IPv4, no zone. An IPv4-mapped address ("::ffff:192.0.2.1") stays IPv6.
 */
export function parseIp(text: string): Uint8Array | undefined {
  return parseIpv4(text) ?? parseIpv6(text)
}

function parseIpv4(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(4)
  let index = 0
  let start = 0 // of the part
  let value = 0
  for (let at = 0; at <= text.length; at++) {
    const char = at < text.length ? text.charCodeAt(at) : DOT
    if (char === DOT) {
      if (at === start || index === 4) return undefined
      bytes[index++] = value
      start = at + 1
      value = 0
    } else {
      if (char < ZERO || char > NINE || (value === 0 && at > start)) return undefined // "04"
      value = value * 10 + char - ZERO
      if (value > 255) return undefined
    }
  }
  return index === 4 ? bytes : undefined
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

/** The bytes of "2001:db8", or of "ffff:192.0.2.1" where the text ends here. Nothing is no bytes. */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  const bytes: number[] = []
  const groups = text === "" ? [] : text.split(":")
  for (let index = 0; index < groups.length; index++) {
    const group = groups[index] ?? ""
    if (isEnd && index === groups.length - 1 && group.includes(".")) {
      const ipv4 = parseIpv4(group)
      if (!ipv4) return undefined
      for (let at = 0; at < 4; at++) bytes.push(ipv4[at] ?? 0)
    } else {
      const value = parseDigits(group, 16, 4)
      if (value === undefined) return undefined
      bytes.push(value >> 8, value & 0xff)
    }
  }
  return bytes
}

/** The value of 1 to `longest` digits and nothing else. */
function parseDigits(text: string, base: 10 | 16, longest: number): number | undefined {
  if (text.length < 1 || text.length > longest) return undefined
  let value = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    const letter = char | 0x20 // in lower case
    let digit = 16
    if (char >= ZERO && char <= NINE) digit = char - ZERO
    else if (letter >= A && letter <= F) digit = letter - A + 10
    if (digit >= base) return undefined
    value = value * base + digit
  }
  return value
}

/**
 * Writes 4 or 16 bytes as text; IPv6 in its one canonical form (RFC 5952): lower case, the first longest run of zero
 * groups as "::", IPv4-mapped ones with a dotted end. Throws `RangeError` for another length.
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

/** Reads "192.0.2.1/24" or "2001:db8::1/64", keeping the host bits; `undefined` for anything else. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf("/")
  const ip = slash < 0 ? undefined : parseIp(text.slice(0, slash))
  const prefix = parseDigits(text.slice(slash + 1), 10, 3)
  return ip && prefix !== undefined && prefix <= ip.length * 8 ? { ip, prefix } : undefined
}

/** Writes an address with its prefix length: "192.0.2.1/24". */
export function formatCidr({ ip, prefix }: Cidr): string {
  return `${formatIp(ip)}/${prefix}`
}

/** Whether two texts are one address, however written; an IPv4-mapped IPv6 address equals its IPv4 address. */
export function sameIp(a: string, b: string): boolean {
  const [left, right] = [parseIp(a), parseIp(b)]
  return left !== undefined && right !== undefined && unmapped(left).join() === unmapped(right).join()
}

/** The family of an address in the sense of the specification's `version` field; IPv4-mapped ones count as "4". */
export function ipFamily(ip: Uint8Array): "4" | "6" {
  return unmapped(ip).length === 4 ? "4" : "6"
}

function isMapped(ip: Uint8Array): boolean {
  if (ip.length !== 16) return false
  for (let at = 0; at < 10; at++) if (ip[at] !== 0) return false
  return ip[10] === 0xff && ip[11] === 0xff
}

function unmapped(ip: Uint8Array): Uint8Array {
  return isMapped(ip) ? ip.subarray(12) : ip
}
