import { dlopen, FFIType } from "bun:ffi"
import { expect, test } from "bun:test"
import { NETLINK_ROUTE } from "../../../pkg/netlink/mod.ts"
import { encodeMessage, KernelTransport, NLMSG_ERROR, readMessages } from "../../../pkg/netlink/testing.ts"

const RTM_GETLINK = 18
const EINVAL = 22

const { symbols: c } = dlopen("libc.so.6", {
  getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: FFIType.i64_fast },
})

test("a datagram that another process sends to a socket is not taken for the kernel's answer [S52]", () => {
  using victim = new KernelTransport(NETLINK_ROUTE)
  using attacker = new KernelTransport(NETLINK_ROUTE)
  const address = new Uint32Array(3) // struct sockaddr_nl: family, port, groups
  expect(c.getsockname(victim.fd, address, new Uint32Array([12]))).toBe(0)
  const forged = encodeMessage(NLMSG_ERROR, 0, 1, new Uint8Array(20)) // an acknowledgement of request 1
  expect(Number(c.sendto(attacker.fd, forged, forged.length, 0, address, 12))).toBe(forged.length)
  victim.send(encodeMessage(RTM_GETLINK, 1, 1, new Uint8Array(16))) // names no link, so the kernel refuses it
  const [answer] = readMessages(victim.receive())
  expect(answer).toMatchObject({ type: NLMSG_ERROR, sequence: 1 })
  expect(new Int32Array((answer?.payload ?? new Uint8Array(4)).slice(0, 4).buffer)[0]).toBe(-EINVAL)
})

// A container can send larger datagrams, but only during a dump. Otherwise the kernel drops its own answer.
test("however long it is, it takes none of our memory [S53]", () => {
  using victim = new KernelTransport(NETLINK_ROUTE)
  using attacker = new KernelTransport(NETLINK_ROUTE)
  const address = new Uint32Array(3)
  expect(c.getsockname(victim.fd, address, new Uint32Array([12]))).toBe(0)
  const huge = new Uint8Array(100_000)
  expect(Number(c.sendto(attacker.fd, huge, huge.length, 0, address, 12))).toBe(huge.length)
  victim.send(encodeMessage(RTM_GETLINK, 1, 7, new Uint8Array(16)))
  const answer = victim.receive()
  expect(readMessages(answer)).toMatchObject([{ type: NLMSG_ERROR, sequence: 7 }])
  expect(answer.buffer.byteLength).toBe(answer.length)
})
