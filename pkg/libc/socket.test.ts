import { expect, spyOn, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { engine } from "../engine/mod.ts"
import { duplicate, type Fd, FileDescriptor, Poll, poll } from "./descriptor.ts"
import { watchClosing } from "./lock.ts"
import {
  leaveToKernel,
  MSG_DONTWAIT,
  MSG_PEEK,
  MSG_TRUNC,
  NetlinkSender,
  openNetlink,
  receive,
  sendToKernel,
  setReceiveTimeout,
  setSocketOption,
} from "./socket.ts"
import { acceptConnection, connectTo, listenAt } from "./unix-socket.ts"

/** struct nlmsghdr and ifinfomsg: `RTM_GETLINK` for link number 1, <linux/rtnetlink.h>. */
const sender = new NetlinkSender()
const getLoopback = Uint8Array.fromHex(`20000000120001000700000000000000${"00000000"}01000000${"00".repeat(8)}`)

test("a netlink socket answers a request, and is ready to be read then", () => {
  using socket = new FileDescriptor(openNetlink(0))
  expect(poll(socket.fd, Poll.In, 0)).toBe(false)
  sendToKernel(socket.fd, getLoopback)
  expect(poll(socket.fd, Poll.In, 1000)).toBe(true)
  const header = new Uint8Array(16)
  const whole = receive(socket.fd, header, MSG_PEEK | MSG_TRUNC, sender)
  expect(whole).toBeGreaterThan(100)
  const answer = new Uint8Array(whole)
  expect(receive(socket.fd, answer, 0, sender)).toBe(whole)
  expect(answer.subarray(0, 16)).toEqual(header)
  const view = new DataView(answer.buffer)
  expect(view.getUint32(0, true)).toBe(whole)
  expect(view.getUint16(4, true)).toBe(16) // RTM_NEWLINK
  expect(view.getUint32(8, true)).toBe(7) // the sequence number of the request
})

test("receiving nothing says EAGAIN, at once with MSG_DONTWAIT and else after the timeout", () => {
  using socket = new FileDescriptor(openNetlink(0))
  expect(() => receive(socket.fd, new Uint8Array(16), MSG_DONTWAIT, sender)).toThrow("EAGAIN")
  setReceiveTimeout(socket.fd, 30.5)
  const start = performance.now()
  expect(() => receive(socket.fd, new Uint8Array(16), 0, sender)).toThrow("EAGAIN")
  expect(performance.now() - start).toBeGreaterThanOrEqual(29)
})

test("a timeout of nothing waits for next to nothing, not for ever", () => {
  using socket = new FileDescriptor(openNetlink(0))
  for (const timeoutMs of [0, -3, 0.0001]) {
    setReceiveTimeout(socket.fd, timeoutMs)
    expect(() => receive(socket.fd, new Uint8Array(16), 0, sender)).toThrow("EAGAIN")
  }
})

test("errors of sockets say what was asked for", () => {
  expect(() => openNetlink(99)).toThrow("socket netlink protocol 99: Protocol not supported (EPROTONOSUPPORT)")
  using socket = new FileDescriptor(openNetlink(0))
  expect(() => setSocketOption(socket.fd, 270, 9999, 1)).toThrow(
    "setsockopt 270/9999: Protocol not available (ENOPROTOOPT)",
  )
  expect(() => sendToKernel(-1 as Fd, getLoopback)).toThrow("sendto the kernel: Bad file descriptor (EBADF)")
})

/** Reports whether the kernel has a netlink socket with this inode, as in /proc/self/fd. */
function isThere(inode: string): boolean {
  return readFileSync("/proc/net/netlink", "utf8")
    .split("\n")
    .some((line) => line.trimEnd().endsWith(` ${inode}`))
}

test("a socket that is left to the kernel is closed by it", async () => {
  const before = readdirSync("/proc/self/fd").length
  const fd = openNetlink(0)
  const [, inode = ""] = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`)) ?? []
  expect(isThere(inode)).toBe(true)
  leaveToKernel(fd)
  expect(readdirSync("/proc/self/fd")).toHaveLength(before)
  const deadline = performance.now() + 5000
  while (isThere(inode) && performance.now() < deadline) await Bun.sleep(1)
  expect(isThere(inode)).toBe(false)
})

test("a socket that is left is let go before the kernel's collector has it: the last one to hold it waits", () => {
  const fd = openNetlink(0)
  const closes = spyOn(engine, "close")
  leaveToKernel(fd)
  expect(closes.mock.calls.map(([closed]) => closed)).toEqual([fd, expect.any(Number), expect.any(Number)])
  closes.mockRestore()
})

test("what is no socket cannot be left", () => {
  expect(() => leaveToKernel(-1 as Fd)).toThrow("EBADF")
})

// O_CLOEXEC is 02000000 in fdinfo, proc(5).
test("no program inherits a socket, a watch or a file", () => {
  const directory = mkdtempSync(join(tmpdir(), "cloexec-"))
  try {
    const path = join(directory, "socket")
    using server = listenAt(path)
    using client = connectTo(path)
    using accepted = acceptConnection(server.fd)
    using netlink = new FileDescriptor(openNetlink(0))
    using watch = watchClosing(directory)
    using file = FileDescriptor.open(directory, 0)
    using found = FileDescriptor.find(directory)
    using copy = new FileDescriptor(duplicate(netlink.fd))
    for (const { fd } of [server, client, accepted, netlink, watch, file, found ?? file, copy])
      expect(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")).toMatch(/^flags:\t0?2\d{6}$/m)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
