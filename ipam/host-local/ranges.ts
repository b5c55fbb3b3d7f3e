import {
  AF_INET,
  CniError,
  Code,
  describe,
  type Family,
  familyOf,
  formatIp,
  parseCidr,
  parseIp,
} from "../../pkg/types/mod.ts"

/** An IP address as a number, so that arithmetic is the same for both families. */
export interface Address {
  readonly family: Family
  /** The bits in network order: 10.0.0.1 is 0x0a000001n. */
  readonly value: bigint
}

/** Parses an address. Returns `undefined` for any other text. */
export function parseAddress(text: string): Address | undefined {
  const ip = parseIp(text)
  return ip && addressOf(ip)
}

function addressOf(ip: Uint8Array): Address {
  let value = BigInt(wordAt(ip, 0))
  for (let at = 4; at < ip.length; at += 4) value = (value << 32n) | BigInt(wordAt(ip, at))
  return { family: familyOf(ip), value }
}

/** Returns four bytes as a number. For an agent's ten thousand addresses this is faster than a `DataView` for each. */
function wordAt(bytes: Uint8Array, at: number): number {
  let word = 0
  for (let next = at; next < at + 4; next++) word = word * 256 + (bytes[next] ?? 0)
  return word
}

/** Returns an address as text, which is also its file name in the store: "10.0.0.1", "fd00::1". */
export function formatAddress({ family, value }: Address): string {
  const ip = new Uint8Array(family === AF_INET ? 4 : 16)
  let rest = value
  for (let end = ip.length; end > 0; end -= 4) {
    let word = Number(rest & 0xffffffffn)
    for (let at = end - 1; at >= end - 4; at--) {
      ip[at] = word % 256
      word = Math.floor(word / 256)
    }
    rest >>= 32n
  }
  return formatIp(ip)
}

export function offset({ family, value }: Address, step: bigint): Address {
  return { family, value: value + step }
}

export function isSameAddress(a: Address, b: Address): boolean {
  return a.family === b.family && a.value === b.value
}

/** Reports whether an address is between `first` and `last`, or one of them, and of the same family. */
export function isBetween({ family, value }: Address, first: Address, last: Address): boolean {
  return family === first.family && value >= first.value && value <= last.value
}

/** The addresses to assign in one subnet: from `start` to `end`, both included. */
export interface Range {
  /** The subnet as written: "10.1.0.0/24". */
  readonly subnet: string
  readonly prefix: number
  readonly start: Address
  readonly end: Address
  readonly gateway: Address
  /** The addresses of the subnet that no host may have; for IPv4 the network address and the broadcast address. */
  readonly reserved: readonly Address[]
}

/** Ranges of one family. A container gets one address of the set. */
export type RangeSet = readonly Range[]

export interface RangeText {
  subnet?: string | undefined
  rangeStart?: string | undefined
  rangeEnd?: string | undefined
  gateway?: string | undefined
}

/**
 * Parses and checks the range sets: subnets have no host bits and enough addresses, starts and ends are inside, a set
 * has one family, and ranges do not overlap. Throws code 7 with the set, the range, and the set's key from `keys`.
 */
export function parseRangeSets(sets: readonly (readonly RangeText[])[], keys: readonly string[] = []): RangeSet[] {
  const read: RangeSet[] = []
  for (const ranges of sets) {
    try {
      read.push(parseRangeSet(ranges))
    } catch (error) {
      if (!(error instanceof CniError)) throw error
      const key = keys[read.length]
      throw refuse(`invalid range set ${read.length}: ${error.message}`, key && `the range set is "${key}"`)
    }
  }
  for (let index = 0; index < read.length; index++) {
    for (let other = index + 1; other < read.length; other++) refuseOverlap(read, index, other, keys)
  }
  return read
}

/** Returns "10.1.0.2-10.1.0.254,10.2.0.2-10.2.0.254". */
export function formatRangeSet(set: RangeSet): string {
  return set.map(formatRange).join(",")
}

export function rangeOf(set: RangeSet, address: Address): Range | undefined {
  for (const range of set) if (isBetween(address, range.start, range.end)) return range
  return undefined
}

/** Reports whether an address is never assigned, as a gateway of the set, a network address or a broadcast address. */
export function isKeptBack(set: RangeSet, address: Address): boolean {
  for (const { gateway, reserved } of set) {
    if (isSameAddress(gateway, address)) return true
    for (const other of reserved) if (isSameAddress(other, address)) return true
  }
  return false
}

export function capacityOf(set: RangeSet): bigint {
  const keptBack = set.flatMap(({ gateway, reserved }) => [gateway, ...reserved])
  const inside = keptBack.filter((address) => rangeOf(set, address)).map(formatAddress)
  return set.reduce((sum, { start, end }) => sum + end.value - start.value + 1n, -BigInt(new Set(inside).size))
}

/** Parses one set. The errors of this and of the functions below do not name the set. */
function parseRangeSet(texts: readonly RangeText[]): RangeSet {
  if (texts.length === 0) throw refuse("empty range set")
  const set: Range[] = []
  for (const text of texts) set.push(parseRange(text))
  for (const { start } of set) if (start.family !== set[0]?.start.family) throw refuse("mixed address families")
  for (let index = 0; index < set.length - 1; index++) {
    const range = set[index] as Range
    const other = overlapOf(range, set, index + 1)
    if (other) throw refuse(`subnets ${formatRange(range)} and ${formatRange(other)} overlap`)
  }
  return set
}

/** Parses one range. Throws code 7. */
export function parseRange({ subnet = "", rangeStart, rangeEnd, gateway }: RangeText): Range {
  const { network, last, prefix } = parseSubnet(subnet)
  const first = offset(network, 1n)
  const start = parseOptional("rangeStart", rangeStart) ?? first
  if (!isBetween(start, network, last)) throw refuse(`rangeStart ${formatAddress(start)} not in network ${subnet}`)
  const end = parseOptional("rangeEnd", rangeEnd) ?? (network.family === AF_INET ? offset(last, -1n) : last)
  if (!isBetween(end, network, last)) throw refuse(`rangeEnd ${formatAddress(end)} not in network ${subnet}`)
  if (start.value > end.value) {
    throw refuse(`rangeStart ${formatAddress(start)} is after rangeEnd ${formatAddress(end)} in network ${subnet}`)
  }
  return {
    subnet,
    prefix,
    start,
    end,
    gateway: parseOptional("gateway", gateway) ?? first,
    reserved: network.family === AF_INET ? [network, last] : [],
  }
}

/** Returns a subnet's first and last address. Throws code 7 for invalid text, host bits, fewer than two hosts. */
export function parseSubnet(text: string): { network: Address; last: Address; prefix: number } {
  const subnet = parseCidr(text)
  if (!subnet) throw refuse(`subnet ${describe(text)} is not an address with a prefix length, like "10.1.0.0/24"`)
  const { ip, prefix } = subnet
  const network = addressOf(ip)
  const { family, value } = network
  const bits = ip.length * 8
  if (prefix > bits - 2) throw refuse(`Network ${text} too small to allocate from`)
  const hostBits = (1n << BigInt(bits - prefix)) - 1n // 0xffn for a /24
  const excess = value & hostBits
  if (excess !== 0n) {
    const right = `${formatAddress(offset(network, -excess))}/${prefix}`
    throw refuse(`Network ${text} has host bits set: the network address is ${right}`)
  }
  return { network, last: { family, value: value | hostBits }, prefix }
}

function parseOptional(key: string, text = ""): Address | undefined {
  if (text === "") return undefined
  const address = parseAddress(text)
  if (!address) throw refuse(`${key} ${describe(text)} is not an IP address`)
  return address
}

function refuseOverlap(sets: readonly RangeSet[], index: number, other: number, keys: readonly string[]): void {
  const set = sets[index] ?? []
  const later = sets[other] ?? []
  for (const range of set) {
    if (!overlapOf(range, later, 0)) continue
    const named = (key = "", ranges: RangeSet) => (key === "" ? "" : `"${key}" `) + formatRangeSet(ranges)
    const details = `${named(keys[index], set)} and ${named(keys[other], later)}`
    throw refuse(`range set ${index} overlaps with ${other}`, details)
  }
}

/** Returns the first range from the given index on that overlaps another range. */
function overlapOf({ start, end }: Range, others: RangeSet, from: number): Range | undefined {
  for (let at = from; at < others.length; at++) {
    const other = others[at]
    if (!other || other.start.family !== start.family) continue
    if (other.start.value <= end.value && other.end.value >= start.value) return other
  }
  return undefined
}

function formatRange({ start, end }: Range): string {
  return `${formatAddress(start)}-${formatAddress(end)}`
}

function refuse(message: string, details = ""): CniError {
  return new CniError(Code.InvalidNetworkConfig, message, { details })
}
