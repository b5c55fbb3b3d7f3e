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
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text)
}

function parseIpv4(text: string): Uint8Array | undefined {
  const parts = text.split(".")
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)) {
    return undefined
  }
  return Uint8Array.from(parts, Number)
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::")
  if (halves.length > 2) return undefined
  const head = parseGroups(halves[0] ?? "", halves.length === 1)
  const tail = parseGroups(halves[1] ?? "", true)
  if (!head || !tail) return undefined
  const gap = 16 - head.length - tail.length
  if (halves.length === 1 ? gap !== 0 : gap < 2) return undefined // "::" stands for at least one group
  return Uint8Array.of(...head, ...new Uint8Array(gap), ...tail)
}

/** The bytes of "2001:db8", or of "ffff:192.0.2.1" where the text ends here. Nothing is no bytes. */
function parseGroups(text: string, isEnd: boolean): number[] | undefined {
  const bytes: number[] = []
  const groups = text === "" ? [] : text.split(":")
  for (const [index, group] of groups.entries()) {
    const ipv4 = isEnd && index === groups.length - 1 && group.includes(".") ? parseIpv4(group) : undefined
    if (ipv4) bytes.push(...ipv4)
    else if (/^[0-9a-fA-F]{1,4}$/.test(group))
      bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255)
    else return undefined
  }
  return bytes
}

/**
 * Writes 4 or 16 bytes as text; IPv6 in its one canonical form (RFC 5952): lower case, the first longest run of zero
 * groups as "::", IPv4-mapped ones with a dotted end. Throws `RangeError` for another length.
 */
export function formatIp(ip: Uint8Array): string {
  if (ip.length === 4) return ip.join(".")
  if (ip.length !== 16) throw new RangeError(`Cannot write an address of ${ip.length} bytes: expected 4 or 16`)
  if (isMapped(ip)) return `::ffff:${ip.subarray(12).join(".")}`
  const groups = Array.from({ length: 8 }, (_, index) =>
    (((ip[2 * index] ?? 0) << 8) | (ip[2 * index + 1] ?? 0)).toString(16),
  )
  const run = longestZeroRun(groups)
  if (run.length < 2) return groups.join(":")
  return `${groups.slice(0, run.start).join(":")}::${groups.slice(run.start + run.length).join(":")}`
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
  const length = text.slice(slash + 1)
  if (!ip || !/^\d+$/.test(length) || Number(length) > ip.length * 8) return undefined
  return { ip, prefix: Number(length) }
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
  return ip.length === 16 && ip[10] === 0xff && ip[11] === 0xff && ip.subarray(0, 10).every((byte) => byte === 0)
}

function unmapped(ip: Uint8Array): Uint8Array {
  return isMapped(ip) ? ip.subarray(12) : ip
}
