import { CniError, Code, describe, parseCidr } from "../../pkg/types/mod.ts"
import {
  type Address,
  addressOf,
  bitsOf,
  formatAddress,
  isBetween,
  isSameAddress,
  offset,
  parseAddress,
} from "./address.ts"

/** Addresses to hand out, `start` to `end` inclusive, of one subnet. */
export interface Range {
  /** As written: "10.1.0.0/24" */
  readonly subnet: string
  readonly prefix: number
  readonly start: Address
  readonly end: Address
  readonly gateway: Address
  /** What lies in the subnet and is no host: of IPv4 the network and the broadcast address. */
  readonly reserved: readonly Address[]
}

/** Ranges of one family, of which an attachment gets one address. */
export type RangeSet = readonly Range[]

/** A range as it is written in a configuration. */
export interface RangeText {
  subnet?: string | undefined
  rangeStart?: string | undefined
  rangeEnd?: string | undefined
  gateway?: string | undefined
}

/**
 * Reads the range sets and checks them: subnets without host bits and large enough, starts and ends inside, one family
 * for each set, nothing overlapping. Throws code 7 that names the set and the range.
 */
export function parseRangeSets(sets: readonly (readonly RangeText[])[]): RangeSet[] {
  const read = sets.map((ranges, index) => {
    try {
      return parseRangeSet(ranges)
    } catch (error) {
      throw error instanceof Refusal ? invalid(`invalid range set ${index}: ${error.message}`) : error
    }
  })
  for (const [index, set] of read.entries()) {
    const other = read.findIndex((later, at) => at > index && set.some((range) => overlapOf(range, later)))
    if (other >= 0) {
      const texts = `${formatRangeSet(set)} and ${formatRangeSet(read[other] ?? [])}`
      throw invalid(`range set ${index} overlaps with ${other}: ${texts}`)
    }
  }
  return read
}

/** "10.1.0.2-10.1.0.254,10.2.0.2-10.2.0.254" */
export function formatRangeSet(set: RangeSet): string {
  return set.map(formatRange).join(",")
}

/** The range of a set that an address lies in. */
export function rangeOf(set: RangeSet, address: Address): Range | undefined {
  return set.find((range) => isBetween(address, range.start, range.end))
}

/** Whether an address of the set is never handed out: a gateway of the set, a network or a broadcast address. */
export function isKeptBack(set: RangeSet, address: Address): boolean {
  return set.some(
    ({ gateway, reserved }) =>
      isSameAddress(gateway, address) || reserved.some((other) => isSameAddress(other, address)),
  )
}

/** How many addresses a set can hand out. */
export function capacityOf(set: RangeSet): bigint {
  const keptBack = set.flatMap(({ gateway, reserved }) => [gateway, ...reserved])
  const inside = keptBack.filter((address) => rangeOf(set, address)).map(formatAddress)
  return set.reduce((sum, { start, end }) => sum + end.value - start.value + 1n, -BigInt(new Set(inside).size))
}

/** What is wrong with a range, before it is said with which. */
class Refusal extends Error {}

function parseRangeSet(texts: readonly RangeText[]): RangeSet {
  if (texts.length === 0) throw new Refusal("empty range set")
  const set = texts.map(parseRange)
  if (set.some(({ start }) => start.family !== set[0]?.start.family)) throw new Refusal("mixed address families")
  for (const [index, range] of set.entries()) {
    const other = overlapOf(range, set.slice(index + 1))
    if (other) throw new Refusal(`subnets ${formatRange(range)} and ${formatRange(other)} overlap`)
  }
  return set
}

function parseRange(text: RangeText): Range {
  const { subnet = "" } = text
  const { network, prefix } = parseSubnet(subnet)
  const { family } = network
  const last = { family, value: network.value | hostBits(family, prefix) }
  const inside = (key: "rangeStart" | "rangeEnd", fallback: Address): Address => {
    const address = parseOptional(key, text[key]) ?? fallback
    if (isBetween(address, network, last)) return address
    throw new Refusal(`${key} ${formatAddress(address)} not in network ${subnet}`)
  }
  const start = inside("rangeStart", offset(network, 1n))
  const end = inside("rangeEnd", family === 4 ? offset(last, -1n) : last)
  if (start.value > end.value) {
    throw new Refusal(`rangeStart ${formatAddress(start)} is after rangeEnd ${formatAddress(end)} in network ${subnet}`)
  }
  const gateway = parseOptional("gateway", text.gateway) ?? offset(network, 1n)
  return { subnet, prefix, start, end, gateway, reserved: family === 4 ? [network, last] : [] }
}

function parseSubnet(text: string): { network: Address; prefix: number } {
  const subnet = parseCidr(text)
  if (!subnet) {
    throw new Refusal(`subnet ${describe(text)} is not an address with a prefix length, like "10.1.0.0/24"`)
  }
  const { ip, prefix } = subnet
  const network = addressOf(ip)
  if (bitsOf(network.family) !== ip.length * 8) {
    throw new Refusal(`network ${text}: IPNet IP and Mask version mismatch; write an IPv4 subnet as IPv4`)
  }
  if (prefix > bitsOf(network.family) - 2) throw new Refusal(`Network ${text} too small to allocate from`)
  const excess = network.value & hostBits(network.family, prefix)
  if (excess !== 0n) {
    const right = `${formatAddress(offset(network, -excess))}/${prefix}`
    throw new Refusal(`Network ${text} has host bits set: the network address is ${right}`)
  }
  return { network, prefix }
}

/** The bits of an address that tell hosts of a network apart: 0xffn for a /24. */
function hostBits(family: 4 | 6, prefix: number): bigint {
  return (1n << BigInt(bitsOf(family) - prefix)) - 1n
}

function parseOptional(key: string, text = ""): Address | undefined {
  const address = text === "" ? undefined : parseAddress(text)
  if (text !== "" && !address) throw new Refusal(`${key} ${describe(text)} is not an IP address`)
  return address
}

function overlapOf(range: Range, others: RangeSet): Range | undefined {
  return others.find(
    ({ start, end }) =>
      start.family === range.start.family && start.value <= range.end.value && end.value >= range.start.value,
  )
}

function formatRange({ start, end }: Range): string {
  return `${formatAddress(start)}-${formatAddress(end)}`
}

function invalid(message: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, message)
}
