import { describe, expect, test } from "bun:test"
import { CniError } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import {
  capacityOf,
  formatRangeSet,
  isKeptBack,
  parseAddress,
  parseRangeSets,
  type RangeText,
  rangeOf,
} from "./ranges.ts"

const one = (range: RangeText) => parseRangeSets([[range]])[0] ?? []
const texts = (...ranges: RangeText[]) => formatRangeSet(parseRangeSets([ranges])[0] ?? [])
const address = (text: string) => parseAddress(text) ?? expect.unreachable()

describe("a range without limits hands out", () => {
  test.each([
    ["IPv4: all but network and broadcast address", "10.1.0.0/24", "10.1.0.1-10.1.0.254"],
    ["the smallest IPv4 subnet", "10.1.0.4/30", "10.1.0.5-10.1.0.6"],
    ["IPv6: all but the first address", "fd00::/64", "fd00::1-fd00::ffff:ffff:ffff:ffff"],
    ["the smallest IPv6 subnet", "fd00::4/126", "fd00::5-fd00::7"],
    ["IPv4 in the form of IPv6", "::ffff:10.1.0.0/120", "10.1.0.1-10.1.0.254"],
    ["everything", "0.0.0.0/0", "0.0.0.1-255.255.255.254"],
  ])("%s", (_, subnet, expected) => {
    expect(texts({ subnet })).toBe(expected)
  })
})

test("limits count, and an empty limit is no limit", () => {
  expect(texts({ subnet: "10.1.0.0/24", rangeStart: "10.1.0.10", rangeEnd: "10.1.0.20" })).toBe("10.1.0.10-10.1.0.20")
  expect(texts({ subnet: "10.1.0.0/24", rangeStart: "", rangeEnd: "", gateway: "" })).toBe("10.1.0.1-10.1.0.254")
})

test("the gateway is the first address unless it is named, inside of the subnet or not", () => {
  const gateway = (range: RangeText) => one(range)[0]?.gateway
  expect(gateway({ subnet: "10.1.0.0/24" })).toEqual(address("10.1.0.1"))
  expect(gateway({ subnet: "10.1.0.0/24", gateway: "192.0.2.1" })).toEqual(address("192.0.2.1"))
})

test("gateways, network and broadcast addresses are kept back, also where the limits include them", () => {
  const set = one({ subnet: "10.1.0.0/29", rangeStart: "10.1.0.0", rangeEnd: "10.1.0.7" })
  const kept = [0, 1, 2, 3, 4, 5, 6, 7].filter((last) => isKeptBack(set, address(`10.1.0.${last}`)))
  expect(kept).toEqual([0, 1, 7])
  expect(capacityOf(set)).toBe(5n)
  expect(capacityOf(one({ subnet: "fd00::/64" }))).toBe(2n ** 64n - 2n)
  expect(capacityOf(one({ subnet: "10.1.0.0/29", gateway: "192.0.2.1" }))).toBe(6n)
})

test("an address belongs to the range whose limits include it", () => {
  const [set = []] = parseRangeSets([[{ subnet: "10.1.0.0/24", rangeStart: "10.1.0.10" }, { subnet: "10.2.0.0/24" }]])
  expect(rangeOf(set, address("10.2.0.9"))?.subnet).toBe("10.2.0.0/24")
  expect(rangeOf(set, address("10.1.0.9"))).toBeUndefined()
  expect(rangeOf(set, address("fd00::1"))).toBeUndefined()
})

test("ranges of one subnet may lie side by side", () => {
  const low = { subnet: "10.1.0.0/24", rangeEnd: "10.1.0.100" }
  const high = { subnet: "10.1.0.0/24", rangeStart: "10.1.0.101" }
  expect(texts(low, high)).toBe("10.1.0.1-10.1.0.100,10.1.0.101-10.1.0.254")
})

describe("refused with code 7, naming set and range:", () => {
  const subnet = "10.1.0.0/24"
  test.each<[string, RangeText[][], string]>([
    ["an empty set", [[{ subnet }], []], "invalid range set 1: empty range set"],
    ["no subnet", [[{}]], 'invalid range set 0: subnet "" is not an address with a prefix length'],
    ["a subnet without prefix", [[{ subnet: "10.1.0.0" }]], 'subnet "10.1.0.0" is not'],
    ["host bits", [[{ subnet: "10.1.0.9/24" }]], "10.1.0.9/24 has host bits set: the network address is 10.1.0.0/24"],
    ["IPv6 host bits", [[{ subnet: "fd00::1/65" }]], "the network address is fd00::/65"],
    ["no room", [[{ subnet: "10.1.0.0/31" }]], "invalid range set 0: Network 10.1.0.0/31 too small to allocate from"],
    ["no IPv6 room", [[{ subnet: "fd00::/127" }]], "Network fd00::/127 too small to allocate from"],
    ["a subnet with IPv4 and IPv6 in it", [[{ subnet: "::ffff:0:0/95" }]], 'subnet "::ffff:0:0/95" is not'],
    ["a start outside", [[{ subnet, rangeStart: "10.2.0.1" }]], "rangeStart 10.2.0.1 not in network 10.1.0.0/24"],
    ["an end outside", [[{ subnet, rangeEnd: "10.1.1.1" }]], "rangeEnd 10.1.1.1 not in network 10.1.0.0/24"],
    ["an end of another family", [[{ subnet, rangeEnd: "fd00::1" }]], "rangeEnd fd00::1 not in network"],
    [
      "a start after the end",
      [[{ subnet, rangeStart: "10.1.0.9", rangeEnd: "10.1.0.8" }]],
      "10.1.0.9 is after rangeEnd",
    ],
    [
      "a start that is not an address",
      [[{ subnet, rangeStart: "10.1.0" }]],
      'rangeStart "10.1.0" is not an IP address',
    ],
    ["a gateway that is not an address", [[{ subnet, gateway: "x" }]], 'gateway "x" is not an IP address'],
    ["two families in a set", [[{ subnet }, { subnet: "fd00::/64" }]], "invalid range set 0: mixed address families"],
    [
      "ranges that overlap",
      [
        [{ subnet: "fd00::/64" }],
        [
          { subnet, rangeEnd: "10.1.0.9" },
          { subnet, rangeStart: "10.1.0.9" },
        ],
      ],
      "invalid range set 1: subnets 10.1.0.1-10.1.0.9 and 10.1.0.9-10.1.0.254 overlap",
    ],
    [
      "sets that overlap",
      [[{ subnet }], [{ subnet: "fd00::/64" }], [{ subnet: "10.1.0.0/16" }]],
      "range set 0 overlaps with 2",
    ],
    [
      "sets that have one address in common, the last of the second",
      [[{ subnet, rangeStart: "10.1.0.9" }], [{ subnet, rangeEnd: "10.1.0.9" }]],
      "range set 0 overlaps with 1",
    ],
  ])("%s", (_, sets, message) => {
    try {
      parseRangeSets(sets)
    } catch (error) {
      expect(error).toBeInstanceOf(CniError)
      expect(error).toMatchObject({ code: 7, message: expect.stringContaining(message) })
      return
    }
    expect.unreachable()
  })
})

test("a refused set, or two that overlap, are named by their keys", () => {
  const refusalOfSets = (...sets: RangeText[][]) =>
    refusalOf(() => void parseRangeSets(sets, ["runtimeConfig.ipRanges[0]", "ipam.ranges[0]"])).details
  expect(refusalOfSets([{ subnet: "x" }])).toBe('the range set is "runtimeConfig.ipRanges[0]"')
  const subnet = "10.1.0.0/24"
  expect(refusalOfSets([{ subnet }], [{ subnet }])).toMatch(/^"runtimeConfig.ipRanges\[0\]" .* and "ipam.ranges\[0\]" /)
})
