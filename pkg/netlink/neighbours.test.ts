import { expect, test } from "bun:test"
import { AF_INET } from "../types/mod.ts"
import type { Ifindex } from "./links.ts"
import { findForwardingEntry, listFixedEntries, listNeighbours, NeighbourState } from "./neighbours.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import {
  acknowledge,
  done,
  expectOnlyDecodeErrors,
  hex,
  ip,
  linkNumber,
  listing,
  reply,
  ScriptedKernel,
} from "./testing.ts"

// The kernel's answer to `ip -4 neigh show nud all`, Linux 6.18.
const permanent = hex`
  02 00 0000 03000000 8000 00 01
  0800 0100 0a010232
  0a00 0200 0a0000000050 0000
  0800 0400 00000000
  1400 0300 03000000 03000000 03000000 00000000`
const incomplete = hex`02 00 0000 03000000 2000 00 01 0800 0100 0a010233`

test("listing gives address, hardware address and state, and no hardware address where none is known", () => {
  expect(listNeighbours(listing(permanent, incomplete), AF_INET)).toEqual([
    { ip: ip("10.1.2.50"), mac: "0a:00:00:00:00:50", index: 3 as Ifindex, state: NeighbourState.Permanent },
    { ip: ip("10.1.2.51"), mac: "", index: 3 as Ifindex, state: NeighbourState.Failed },
  ])
})

test("listing asks for a family", () => {
  const kernel = new ScriptedKernel((request) => [done(request)])
  listNeighbours(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), AF_INET)
  expect(kernel.datagrams).toEqual([hex`1c000000 1e00 0103 01000000 00000000 02 00 0000 00000000 0000 00 00`])
})

test("any payload gives a neighbor or a DecodeError", () => {
  expectOnlyDecodeErrors((payload) => listNeighbours(listing(payload), AF_INET), permanent)
})

// The kernel's answer to `bridge fdb get 0a:00:00:00:00:01 br cni0`, Linux 6.18: the bridge's own entry.
const ownEntry = hex`
  07 00 0000 05000000 8000 00 00
  0a00 0200 0a0000000001 0000
  0800 0900 05000000`
const entryOf = (state: number, index: number) => {
  const entry = ownEntry.slice()
  entry.set([index, 0, 0, 0, state, 0], 4)
  return entry
}

test("a MAC is looked up in a bridge, which tells port and whether the frames are the host's", () => {
  const answers = [ownEntry, entryOf(NeighbourState.Reachable, 7)]
  const kernel = new ScriptedKernel((request) => [reply(request, 28, answers.shift() ?? hex``)])
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
  const look = () => findForwardingEntry(route, linkNumber(5, "cni0"), "0a:00:00:00:00:01")
  expect(look()).toEqual({ index: 5 as Ifindex, isLocal: true })
  expect(look()).toEqual({ index: 7 as Ifindex, isLocal: false })
  expect(kernel.datagrams[0]).toEqual(hex`
    30000000 1e00 0100 01000000 00000000
    07 00 0000 00000000 0000 00 00
    0a00 0200 0a0000000001 0000
    0800 0900 05000000`)
})

test("a MAC that a bridge does not know is undefined", () => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request, 2)]) // ENOENT
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
  expect(findForwardingEntry(route, linkNumber(5, "cni0"), "0a:00:00:00:00:01")).toBeUndefined()
})

// A part of the kernel's answer to `bridge fdb show br br0`: struct ndmsg, NDA_LLADDR.
test("the entries of a bridge that do not age are those set by hand and the bridge's own; learned ones and those of interfaces are passed over", () => {
  const mac = "0a00 0200 0a580a550002 0000"
  const entry = (state: string, flags = "00", index = "05000000") =>
    Uint8Array.fromHex(`07000000 ${index} ${state} ${flags} 00 ${mac}`.replaceAll(" ", ""))
  const found = listFixedEntries(
    listing(entry("4000"), entry("8000", "00", "03000000"), entry("8000", "02"), entry("0200"), entry("0400")),
    linkNumber(3, "br0"),
  )
  expect(found).toEqual([
    { index: 5 as Ifindex, isLocal: false, mac: "0a:58:0a:55:00:02" },
    { index: 3 as Ifindex, isLocal: true, mac: "0a:58:0a:55:00:02" },
  ])
})
