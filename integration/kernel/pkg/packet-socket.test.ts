/** Tests a packet socket on a real kernel: its filter, and that started programs do not inherit it. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { encodeFilter, PacketSocket, Poll, poll } from "../../../pkg/libc/mod.ts"
import { Netns } from "../../../pkg/netns/mod.ts"
import { HostNamespace } from "../../lab/mod.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("packets")
  await host.exec("ip", ["link", "set", "lo", "up"])
})
afterAll(() => host[Symbol.asyncDispose]())

function open(index: number, filter: Uint8Array): PacketSocket {
  using namespace = Netns.open(host.path)
  let socket: PacketSocket | undefined
  namespace.run(() => {
    socket = new PacketSocket(index, filter)
  })
  return socket as PacketSocket
}

// A filter that accepts complete frames with this EtherType. <linux/filter.h>: BPF_LD | BPF_H | BPF_ABS 0x28, BPF_JMP |
// BPF_JEQ 0x15, BPF_RET 0x06
const onlyType = (type: number) =>
  encodeFilter([
    [0x28, 0, 0, 12],
    [0x15, 0, 1, type],
    [0x06, 0, 0, 0xffff],
    [0x06, 0, 0, 0],
  ])

const frame = (type: number, text: string) =>
  Uint8Array.of(...new Uint8Array(12), type >> 8, type & 0xff, ...new TextEncoder().encode(text))

test("a packet socket gets the frames that its filter lets through, cut off by the buffer, and waits for none", () => {
  using socket = open(1, onlyType(0x88b5)) // lo; an EtherType for local experiments, IEEE 802
  expect(socket.receive(new Uint8Array(99))).toBeUndefined()
  for (const [type, text] of [
    [0x88b6, "not this"],
    [0x88b5, "this"],
    [0x88b5, "that"],
  ] as const)
    socket.send(frame(type, text))
  const next = (length: number) => {
    expect(poll(socket.fd, Poll.In, 10_000)).toBe(true)
    return socket.receive(new Uint8Array(length))
  }
  expect(next(99)).toEqual(frame(0x88b5, "this"))
  expect(next(16)).toEqual(frame(0x88b5, "that").subarray(0, 16))
  expect(socket.receive(new Uint8Array(99))).toBeUndefined()
})

// proc(5), fdinfo: O_RDWR 02, O_NONBLOCK 04000, O_CLOEXEC 02000000
test("a packet socket is for this process alone", () => {
  using socket = open(1, onlyType(0))
  expect(readFileSync(`/proc/self/fdinfo/${socket.fd}`, "utf8")).toMatch(/^flags:\t02004002$/m)
})

test("a link that does not exist, and a malformed filter, are refused with what was asked for, and nothing stays open", () => {
  const before = readdirSync("/proc/self/fd").length
  expect(() => open(4711, onlyType(0))).toThrow("bind link number 4711: No such device (ENODEV)")
  expect(() => open(1, encodeFilter([[0xffff, 0, 0, 0]]))).toThrow(
    "setsockopt SO_ATTACH_FILTER: Invalid argument (EINVAL)",
  )
  expect(readdirSync("/proc/self/fd")).toHaveLength(before)
})
