import { expect, test } from "bun:test"
import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import * as netlink from "./mod.ts"
import { hex, listing } from "./testing.ts"

const index = 7 as netlink.Ifindex

// Answers that consist of a header alone, <linux/rtnetlink.h>, <linux/if_addr.h>, <linux/neighbour.h>,
// <linux/fib_rules.h>.
test("a link without attributes has no name, no address, no kind and no size", () => {
  const [link] = netlink.listLinks(listing(hex`00 00 0100 07000000 43000000 00000000`))
  expect(link).toEqual({ index, name: "", flags: 0x43, type: 1, mac: "", mtu: 0, kind: "", attributes: {} } as never)
})

test("an address that is not told is all zeros, of its family's length; flags are the header's as far as they fit", () => {
  const addresses = listing(hex`02 18 80 00 07000000`, hex`0a 40 81 fd 07000000`)
  expect(netlink.listAddresses(addresses)).toEqual([
    { ip: new Uint8Array(4), prefix: 24, index, flags: 0x80, scope: 0 },
    { ip: new Uint8Array(16), prefix: 64, index, flags: 0x81, scope: 253 },
  ])
  const wide = listing(hex`02 18 80 00 07000000 0800 0100 0a010005 0800 0800 80020000`) // IFA_ADDRESS, IFA_FLAGS
  expect(netlink.listAddresses(wide)).toEqual([
    { ip: Uint8Array.of(10, 1, 0, 5), prefix: 24, index, flags: 0x280, scope: 0 },
  ])
})

test("of one link's addresses those are kept that are its own, and of all links' all", () => {
  const both = () => listing(hex`02 18 80 00 07000000`, hex`02 18 80 00 08000000`)
  const indexes = (found: readonly netlink.Address[]) => found.map((address) => address.index as number)
  expect(indexes(netlink.listAddresses(both(), { index: 8 as netlink.Ifindex, name: "eth8" }))).toEqual([8])
  expect(indexes(netlink.listAddresses(both()))).toEqual([7, 8])
})

test("a neighbor without addresses has none", () => {
  const [neighbour] = netlink.listNeighbours(listing(hex`02 00 0000 07000000 4000 00 00`), AF_INET)
  expect(neighbour).toEqual({ ip: new Uint8Array(0), mac: "", index, state: 0x40 })
})

test.each<[Family, Uint8Array, number]>([
  [AF_INET, hex`02 00 00 00 fe 03 00 01 00000000`, 4],
  [AF_INET6, hex`0a 00 00 00 fe 03 00 01 00000000`, 16],
])("a route of family %d without attributes is the default, of the header's table", (family, header, length) => {
  const [route] = netlink.listRoutes(listing(header), family)
  expect(route).toMatchObject({ prefix: 0, table: 254, scope: 0, protocol: 3, type: 1, flags: 0 })
  expect(route?.dst).toEqual(new Uint8Array(length))
  for (const key of ["gateway", "index", "priority", "mtu", "advmss", "nextHops", "onLink"] as const)
    expect(route?.[key]).toBeUndefined()
})

test("a rule without attributes is for the header's table", () => {
  const [rule] = netlink.listRules(listing(hex`02 00 00 00 fd 00 00 01 00000000`), AF_INET)
  expect(rule).toMatchObject({ family: AF_INET, table: 253 })
})

test("a port without VLANs has an empty list of them", () => {
  const found = netlink.listPortVlans(listing(hex`07 00 0100 07000000 43000000 00000000`))
  expect([...found]).toEqual([[index, []]])
})
