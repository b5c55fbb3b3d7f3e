import { expect, test } from "bun:test"
import { NetlinkError, type Request } from "../netlink/mod.ts"
import { dumping, expectOnlyDecodeErrors, hex, ip } from "../netlink/testing.ts"
import { AF_INET, AF_INET6, formatIp } from "../types/mod.ts"
import { type ConntrackEntry, entryAttributes, flushConntrack, flushUntranslated } from "./flush.ts"

function kernel(flows: readonly Uint8Array[], refusal?: string) {
  const asked: Request[] = []
  const deleted: Request[] = []
  return {
    asked,
    deleted,
    dump: dumping((request) => {
      asked.push(request)
      return flows.map((payload) => ({ type: 0x100, flags: 2, sequence: 1, port: 0, payload }))
    }),
    execute(request: Request) {
      if (refusal) throw new NetlinkError(request.what, refusal)
      deleted.push(request)
    },
  }
}

// The answers of Linux 6.18 after `echo x > /dev/udp/203.0.113.1/53` with `dnat to 127.0.0.9:5353`, and after the same
// for [2001:db8::1] without translation. The requests below are those for which it selected these entries.
const translated = hex`02000000
  3400 0180                                                      # CTA_TUPLE_ORIG
    1400 0180 0800 0100 cb007101 0800 0200 cb007101              # CTA_TUPLE_IP: from and to 203.0.113.1
    1c00 0280 0500 0100 11000000 0600 0200 9c400000 0600 0300 00350000 # CTA_TUPLE_PROTO: UDP from 40000 to 53
  3400 0280
    1400 0180 0800 0100 7f000009 0800 0200 cb007101
    1c00 0280 0500 0100 11000000 0600 0200 14e90000 0600 0300 9c400000
  0800 0300 000001a8 0800 0800 00000000                          # CTA_STATUS, CTA_MARK
  0800 0c00 f4d26b02                                             # CTA_ID
  0800 0b00 00000001 0800 0700 0000001d`
const ipv6 = hex`0a000000
  4c00 0180
    2c00 0180 1400 0300 20010db8000000000000000000000001 1400 0400 20010db8000000000000000000000001
    1c00 0280 0500 0100 11000000 0600 0200 9c410000 0600 0300 00350000
  4c00 0280
    2c00 0180 1400 0300 20010db8000000000000000000000001 1400 0400 20010db8000000000000000000000001
    1c00 0280 0500 0100 11000000 0600 0200 00350000 0600 0300 9c410000
  0800 0c00 e2d1f47e`

test("a flow is read with both directions, before and after translation", () => {
  const seen: ConntrackEntry[] = []
  const keep = (flow: ConntrackEntry) => seen.push(flow) < 0
  flushConntrack(kernel([translated]), { family: AF_INET, protocol: 17, ports: [53] }, keep)
  flushConntrack(kernel([ipv6]), { family: AF_INET6, protocol: 17, ports: [53] }, keep)
  const [host, loopback] = [ip("203.0.113.1"), ip("2001:db8:0:0:0:0:0:1")]
  const udp = { protocol: 17 }
  expect(seen).toEqual([
    {
      original: { ...udp, source: host, destination: host, sourcePort: 40000, destinationPort: 53 },
      reply: { ...udp, source: ip("127.0.0.9"), destination: host, sourcePort: 5353, destinationPort: 40000 },
    },
    {
      original: { ...udp, source: loopback, destination: loopback, sourcePort: 40001, destinationPort: 53 },
      reply: { ...udp, source: loopback, destination: loopback, sourcePort: 53, destinationPort: 40001 },
    },
  ])
})

test("a flow is deleted by its original direction and its id, as they were listed", () => {
  const socket = kernel([translated])
  flushConntrack(socket, { family: AF_INET, protocol: 17, ports: [53] }, () => true)
  expect(socket.deleted).toHaveLength(1)
  const [{ type, payload } = { type: 0, payload: hex`` }] = socket.deleted
  expect(type).toBe(0x102) // IPCTNL_MSG_CT_DELETE
  expect(payload).toEqual(hex`02000000
    3400 0180
      1400 0180 0800 0100 cb007101 0800 0200 cb007101
      1c00 0280 0500 0100 11000000 0600 0200 9c400000 0600 0300 00350000
    0800 0c00 f4d26b02`)
})

// CTA_FILTER, CTA_FILTER_ORIG_FLAGS: CTA_FILTER_F_CTA_PROTO_NUM 8, CTA_FILTER_F_CTA_PROTO_DST_PORT 32
test("the flows to each port are picked out by the kernel; of many ports it picks the protocol", () => {
  const socket = kernel([])
  const many = Array.from({ length: 17 }, (_, index) => 100 + index)
  flushConntrack(socket, { family: AF_INET, protocol: 17, ports: [53, 54, 53] }, () => true)
  flushConntrack(socket, { family: AF_INET6, protocol: 17, ports: many }, () => true)
  expect(socket.asked.map(({ type }) => type)).toEqual([0x101, 0x101, 0x101]) // IPCTNL_MSG_CT_GET
  expect(socket.asked.map(({ payload }) => payload)).toEqual([
    hex`02000000 1800 0180 1400 0280 0500 0100 11000000 0600 0300 00350000 0c00 1980 0800 0100 28000000`,
    hex`02000000 1800 0180 1400 0280 0500 0100 11000000 0600 0300 00360000 0c00 1980 0800 0100 28000000`,
    hex`0a000000 1000 0180 0c00 0280 0500 0100 11000000 0c00 1980 0800 0100 08000000`,
  ])
})

test("a kernel before Linux 5.8, which lists all flows, is asked once", () => {
  const socket = kernel([translated])
  flushConntrack(socket, { family: AF_INET, protocol: 17, ports: [54, 53, 55] }, () => true)
  expect(socket.deleted).toHaveLength(1)
  expect(socket.asked).toHaveLength(1)
})

test("what a kernel before Linux 5.8 lists besides is left alone", () => {
  const socket = kernel([translated])
  for (const flushed of [
    { protocol: 17, ports: [54] },
    { protocol: 6, ports: [53] },
  ]) {
    flushConntrack(socket, { family: AF_INET, ...flushed }, () => true)
  }
  expect(socket.deleted).toEqual([])
})

// From the list of Linux 6.18 while a container sends to 203.0.113.1 without a masquerade: CTA_STATUS has
// IPS_CONFIRMED, then IPS_SEEN_REPLY.
const plain = hex`02000000
  3400 0180
    1400 0180 0800 0100 0a550002 0800 0200 cb007101
    1c00 0280 0500 0100 11000000 0600 0200 9c400000 0600 0300 00350000
  3400 0280
    1400 0180 0800 0100 cb007101 0800 0200 0a550002
    1c00 0280 0500 0100 11000000 0600 0200 00350000 0600 0300 9c400000
  0800 0c00 f4d26b02`
const withStatus = (status: Uint8Array) => Uint8Array.from([...plain, ...status])

test("of flows without translation and answer those that are stale are flushed, and no others", () => {
  const seen: string[] = []
  const socket = kernel([translated, withStatus(hex`0800 0300 00000008`), withStatus(hex`0800 0300 0000000a`)])
  flushUntranslated(socket, AF_INET, ({ source }) => seen.push(formatIp(source)) > 0)
  expect(seen).toEqual(["10.85.0.2"])
  expect(socket.asked.map(({ payload }) => payload)).toEqual([hex`02000000`])
  expect(socket.deleted).toHaveLength(1)
  flushUntranslated(socket, AF_INET, () => false)
  expect(socket.deleted).toHaveLength(1)
})

test("a flow that ended during the call is not counted, and another refusal is an error", () => {
  const flush = (errno: string) => {
    flushConntrack(kernel([translated], errno), { family: AF_INET, protocol: 17, ports: [53] }, () => true)
  }
  expect(() => flush("ENOENT")).not.toThrow()
  expect(() => flush("EPERM")).toThrow("EPERM")
})

test("random bytes are read, or refused as such", () => {
  expectOnlyDecodeErrors((bytes) => entryAttributes.decode(bytes))
})
