import { expect, test } from "bun:test"
import { AF_INET } from "../types/mod.ts"
import type { Ifindex } from "./links.ts"
import { deleteNeighbour, listNeighbours, NeighbourState, setNeighbour } from "./neighbours.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import {
  acknowledge,
  done,
  expectOnlyDecodeErrors,
  hex,
  ip,
  linkNumber,
  listing,
  requestOf,
  ScriptedKernel,
} from "./testing.ts"

// The bytes below a command are what iproute2 6.1.0 sent for it, from the byte after struct nlmsghdr on:
//   strace -e trace=sendmsg -e write=3 COMMAND

const br0 = linkNumber(3, "br0")

test.each([
  [
    "ip neigh replace 10.1.2.50 lladdr 0a:00:00:00:00:50 dev br0",
    "10.1.2.50",
    hex`
      02 00 0000 03000000 8000 00 00  # struct ndmsg: AF_INET, index 3, NUD_PERMANENT
      0800 0100 0a010232              # NDA_DST
      0a00 0200 0a0000000050 0000     # NDA_LLADDR`,
  ],
  [
    "ip neigh replace 2001:db8::50 lladdr 0a:00:00:00:00:50 dev br0",
    "2001:db8:0:0:0:0:0:50",
    hex`
      0a 00 0000 03000000 8000 00 00
      1400 0100 20010db8000000000000000000000050
      0a00 0200 0a0000000050 0000`,
  ],
])("%s", (_, address, payload) => {
  const request = requestOf((route) => setNeighbour(route, br0, { ip: ip(address), mac: "0a:00:00:00:00:50" }))
  expect(request).toEqual({ type: 28, flags: 0x505, payload }) // CREATE | REPLACE
})

// ip neigh del 10.1.2.50 dev br0, which sends NUD_PERMANENT as the state; the kernel does not look at it.
test("deleting names the address and the link", () => {
  expect(requestOf((route) => deleteNeighbour(route, br0, ip("10.1.2.50")))).toEqual({
    type: 29,
    flags: 0x5,
    payload: hex`02 00 0000 03000000 0000 00 00 0800 0100 0a010232`,
  })
})

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

test("errors name the address and the link", () => {
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, 2)]))
  expect(() => deleteNeighbour(route, br0, ip("10.1.2.50"))).toThrow('delete neighbour 10.1.2.50 of "br0": ENOENT')
  const wrong = { ip: ip("10.1.2.50"), mac: "" }
  expect(() => setNeighbour(route, br0, wrong)).toThrow('set neighbour 10.1.2.50 of "br0": ENOENT')
})

test("any payload gives a neighbour or a DecodeError", () => {
  expectOnlyDecodeErrors((payload) => listNeighbours(listing(payload), AF_INET), permanent)
})
