import { expect, test } from "bun:test"
import type { Ifindex } from "./links.ts"
import { encodeMessage } from "./message.ts"
import { findRoute } from "./routes.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import { hex, ip, ScriptedKernel } from "./testing.ts"

function kernel(answer: (sequence: number) => Uint8Array) {
  return new ScriptedKernel(({ sequence }) => [answer(sequence)])
}

const routed = (sequence: number) =>
  encodeMessage(
    24, // RTM_NEWROUTE
    0,
    sequence,
    hex`02 20 00 00 fe 00 00 01 00020000 0800 0f00 fe000000 0800 0100 0a160002 0800 0400 07000000 0800 0700 0a160001`,
  )

// ip route get 10.22.0.2; ip route get fd00:22::2, without the flag RTM_F_LOOKUP_TABLE that ip sets
test.each([
  ["10.22.0.2", hex`02 20 00 00 00 00 00 00 00000000 0800 0100 0a160002`],
  ["fd00:22:0:0:0:0:0:2", hex`0a 80 00 00 00 00 00 00 00000000 1400 0100 fd000022000000000000000000000002`],
])("the way to %s is asked for by the address alone", (address, payload) => {
  const transport = kernel(routed)
  expect(findRoute(new NetlinkSocket(NETLINK_ROUTE, 0, transport), ip(address))?.index).toBe(7 as Ifindex)
  expect(transport.requests).toEqual([{ type: 26, flags: 1, sequence: 1, port: 0, payload }])
})

// struct nlmsgerr with -ENETUNREACH, -EHOSTUNREACH, -EPERM
test.each([
  [hex`9bffffff`, undefined],
  [hex`8fffffff`, undefined],
  [hex`ffffffff`, "find the route to 10.22.0.2: EPERM"],
])("no route is undefined, and another refusal an error", (error, message) => {
  const refusal = new Uint8Array([...error, ...new Uint8Array(16)])
  const socket = new NetlinkSocket(
    NETLINK_ROUTE,
    0,
    kernel((sequence) => encodeMessage(2, 0, sequence, refusal)),
  )
  const ask = () => findRoute(socket, ip("10.22.0.2"))?.index
  if (message === undefined) expect(ask()).toBeUndefined()
  else expect(ask).toThrow(message)
})
