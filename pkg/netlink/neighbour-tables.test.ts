import { expect, test } from "bun:test"
import { listNeighbourTables } from "./neighbour-tables.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { done, expectOnlyDecodeErrors, hex, listing, ScriptedKernel } from "./testing.ts"

// A part of the kernel's answer to `ip ntable show`: struct ndtmsg, the name, gc_thresh3, and struct ndt_config.
const arp = hex`
  02 00 0000
  0e00 0100 6172705f636163686500 0000
  0800 0400 00040000
  2400 0500 0400 6801 2a000000 00000000 00000000 00000000 00000000 00000000 00000000`
/** Returns NDTA_STATS with struct ndt_stats, in which the bytes `last` follow ten counters. */
const statistics = (...last: number[]) => [84 + last.length, 0, 7, 0, ...new Uint8Array(80), ...last]
const parametersOfLink = hex`02 00 0000 0e00 0100 6172705f636163686500 0000`
const decnet = hex`0c 00 0000 0800 0400 00040000`

test("a table tells its entries and how many it takes; once; the parameters of links and other families are passed over", () => {
  expect(listNeighbourTables(listing(arp, parametersOfLink, decnet, arp, parametersOfLink))).toEqual([
    { family: 2, entries: 42, most: 1024, refused: 0 },
  ])
})

test("a table tells how many entries it has refused, where the kernel counts them", () => {
  const refused = (attribute: number[]) =>
    listNeighbourTables(listing(new Uint8Array([...arp, ...attribute])))[0]?.refused
  const counted = [3, 0, 0, 0, 1, 0, 0, 0]
  expect([refused(statistics()), refused(statistics(...counted))]).toEqual([0, 2 ** 32 + 3])
})

test("listing asks for the tables of all families", () => {
  const kernel = new ScriptedKernel((request) => [done(request)])
  listNeighbourTables(new NetlinkSocket(NETLINK_ROUTE, 0, kernel))
  expect(kernel.datagrams).toEqual([hex`14000000 4200 0103 01000000 00000000 00 00 0000`])
})

test("any payload gives a table or a DecodeError", () => {
  expectOnlyDecodeErrors((payload) => listNeighbourTables(listing(payload)), arp)
})
