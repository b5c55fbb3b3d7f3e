import { expect, test } from "bun:test"
import type { Ifindex } from "./links.ts"
import { encodeMessage } from "./message.ts"
import { askRoute } from "./route-get.ts"
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

// ip route get 10.22.0.2; ip route get fd00:22::2, without the flag RTM_F_LOOKUP_TABLE, which ip sets
test.each([
  ["10.22.0.2", hex`02 20 00 00 00 00 00 00 00000000 0800 0100 0a160002`],
  ["fd00:22:0:0:0:0:0:2", hex`0a 80 00 00 00 00 00 00 00000000 1400 0100 fd000022000000000000000000000002`],
])("the way to %s is asked for by the address alone", (address, payload) => {
  const transport = kernel(routed)
  expect(findRoute(new NetlinkSocket(NETLINK_ROUTE, 0, transport), ip(address))?.index).toBe(7 as Ifindex)
  expect(transport.requests).toEqual([{ type: 26, flags: 1, sequence: 1, payload }])
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

// strace -x ip route get 192.0.2.1 from 10.22.0.2 iif cni0 mark 5 ipproto tcp dport 80, with the attributes in another
// order; ip -6 route get fd00:22::2
test.each([
  [
    { dst: ip("192.0.2.1"), src: ip("10.22.0.2"), input: 7 as Ifindex, mark: 5, protocol: 6, destinationPort: 80 },
    hex`02 20 20 00 00 00 00 00 00100000 0800 0100 c0000201 0800 0200 0a160002 0800 0300 07000000 0800 1000 05000000
      0500 1b00 06000000 0600 1d00 00500000`,
  ],
  [
    { dst: ip("fd00:22:0:0:0:0:0:2") },
    hex`0a 80 00 00 00 00 00 00 00000000 1400 0100 fd000022000000000000000000000002`,
  ],
])("a packet's route is asked for by all that rules may look at", (question, payload) => {
  const transport = kernel(routed)
  expect(askRoute(new NetlinkSocket(NETLINK_ROUTE, 0, transport), question)).toMatchObject({ index: 7, table: 254 })
  expect(transport.requests).toEqual([{ type: 26, flags: 1, sequence: 1, payload }])
})

/** Returns struct nlmsgerr with this errno, and an extended acknowledgement with the kernel's explanation. */
const refused = (errno: number, words = "") => {
  const text = new Uint8Array([...new TextEncoder().encode(words), 0])
  const attribute = [4 + text.length, 0, 1, 0, ...text, ...new Uint8Array((4 - (text.length % 4)) % 4)] // NLMSGERR_ATTR_MSG
  const code = new Uint8Array(new Int32Array([-errno]).buffer)
  const payload = new Uint8Array([...code, ...new Uint8Array(16), ...(words === "" ? [] : attribute)])
  const NLM_F_CAPPED_AND_ACK_TLVS = 0x300
  return new NetlinkSocket(
    NETLINK_ROUTE,
    0,
    kernel((sequence) => encodeMessage(2, words === "" ? 0 : NLM_F_CAPPED_AND_ACK_TLVS, sequence, payload)),
  )
}

test("that there is none is an answer, and why; a question that the kernel refuses is an error", () => {
  const answers = [101, 113, 13, 22, 18].map((errno) => askRoute(refused(errno), { dst: ip("192.0.2.1") }))
  expect(answers).toEqual(["ENETUNREACH", "EHOSTUNREACH", "EACCES", "EINVAL", "EXDEV"])
  expect(() => askRoute(refused(1), { dst: ip("192.0.2.1") })).toThrow("find the route to 192.0.2.1: EPERM")
  expect(() => askRoute(refused(22, "Invalid flags"), { dst: ip("192.0.2.1") })).toThrow("Invalid flags")
})
