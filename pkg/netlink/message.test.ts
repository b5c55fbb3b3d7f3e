import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { parseError, parseMessages } from "netlink/dist/structs"
import { isErrno } from "../libc/mod.ts"
import { concat, DecodeError } from "./codec.ts"
import {
  encodeMessage,
  type Message,
  NetlinkError,
  netfilterHeader,
  readAcknowledgement,
  readDone,
  readMessages,
} from "./message.ts"
import { expectOnlyDecodeErrors, hex } from "./testing.ts"

function only(bytes: Uint8Array): Message {
  const [message, ...more] = readMessages(bytes)
  if (!message || more.length > 0) throw new Error("not one message")
  return message
}

// ip link set v0 up
const linkUp = hex`
  20000000 1000 0500 4c45016b 00000000  # struct nlmsghdr: length, RTM_NEWLINK, REQUEST | ACK, sequence, port
  00 00 0000 02000000 01000000 01000000  # struct ifinfomsg: index 2, flags IFF_UP, change IFF_UP`

// The answer to ip link set br0 mtu 10.
const mtuTooSmall = hex`
  60000000 0200 0002 4a290000 edffffff  # NLMSG_ERROR, NLM_F_ACK_TLVS
  eaffffff                              # -EINVAL
  28000000 1000 0500 4c45016b 00000000  # the request, whole
  00 00 0000 03000000 00000000 00000000 0800 0400 0a000000
  2100 0100 6d7475206c657373207468616e20646576696365206d696e696d756d00 000000  # NLMSGERR_ATTR_MSG`

describe("messages", () => {
  test("are written with a header that the kernel completes with our port", () => {
    expect(encodeMessage(16, 5, 0x6b01454c, linkUp.subarray(16))).toEqual(linkUp)
  })

  test("are padded to four bytes, which their length does not count", () => {
    expect(encodeMessage(1, 1, 1, hex`aa`)).toEqual(hex`11000000 0100 0100 01000000 00000000 aa 000000`)
  })

  test("are read one by one from a datagram, the last one padded or not", () => {
    const datagram = concat([encodeMessage(1, 2, 3, hex`aa`), linkUp, hex`11000000 0200 0300 04000000 05000000 bb`])
    expect(readMessages(datagram)).toEqual([
      { type: 1, flags: 2, sequence: 3, payload: hex`aa` },
      { type: 16, flags: 5, sequence: 0x6b01454c, payload: linkUp.subarray(16) },
      { type: 2, flags: 3, sequence: 4, payload: hex`bb` },
    ])
    expect(readMessages(hex``)).toEqual([])
  })

  test("with a length that cannot be are refused", () => {
    expect(() => readMessages(linkUp.subarray(0, 31))).toThrow(
      "the message at byte 0 has length 32, but only 31 bytes are left",
    )
    expect(() => readMessages(hex`0f000000 0100 0100 01000000 00000000`)).toThrow(DecodeError)
    expect(() => readMessages(concat([linkUp, hex`00`]))).toThrow(
      "the message at byte 32 has length 1, but only 1 bytes are left",
    )
  })

  test("are the same in node-netlink", () => {
    const one = fc.record({
      type: fc.nat(0xffff),
      flags: fc.nat(0xffff),
      sequence: fc.nat(0xffffffff),
      payload: fc.uint8Array({ maxLength: 40 }),
    })
    const check = (items: { type: number; flags: number; sequence: number; payload: Uint8Array }[]) => {
      const ours = concat(items.map((m) => encodeMessage(m.type, m.flags, m.sequence, m.payload)))
      const theirs = parseMessages(Buffer.from(ours)).map(({ type, flags, seq, data }) => {
        return { type, flags, sequence: seq, payload: new Uint8Array(data) }
      })
      expect<unknown>(theirs).toEqual(items)
      expect<unknown>(readMessages(ours)).toEqual(theirs)
    }
    fc.assert(fc.property(fc.array(one, { maxLength: 5 }), check))
  })
})

describe("an acknowledgement", () => {
  test("of success has errno 0", () => {
    const wire = hex`24000000 0200 0001 07000000 00000000 00000000 20000000 1000 0500 07000000 00000000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 0 })
  })

  test("carries the kernel's extack after the request that it answers", () => {
    expect(readAcknowledgement(only(mtuTooSmall))).toEqual({ errno: 22, extack: "mtu less than device minimum" })
  })

  // The same answer with NETLINK_CAP_ACK, which the suite's sockets set: only the header of the request is repeated.
  test("carries them after the request's header when it is capped", () => {
    const wire = hex`
      48000000 0200 0003 4a290000 edffffff  # NLM_F_CAPPED | NLM_F_ACK_TLVS
      eaffffff 28000000 1000 0500 4c45016b 00000000
      2100 0100 6d7475206c657373207468616e20646576696365206d696e696d756d00 000000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 22, extack: "mtu less than device minimum" })
  })

  test("carries them after the padding of a request that has some", () => {
    const wire = hex`
      34000000 0200 0002 01000000 00000000 eaffffff 11000000 1000 0500 01000000 00000000 aa 000000
      0a00 0100 6e6f70652100 0000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 22, extack: "nope!" })
  })

  // The answer to ip link add br0 type bridge, if br0 exists.
  test("may have no extack", () => {
    const wire = hex`
      4c000000 0200 0000 4c45016b 3e290000 efffffff
      38000000 1000 0506 4c45016b 00000000
      00000000000000000000000000000000 0800 0300 62723000 1000 1200 0a00 0100 6272696467650000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 17 })
  })

  // NLMSGERR_ATTR_MISS_TYPE, <linux/netlink.h>, since Linux 6.0
  test("may name the attribute that is missing instead", () => {
    const wire = hex`
      2c000000 0200 0003 01000000 00000000 eaffffff 20000000 1000 0500 01000000 00000000 0800 0500 09000000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 22, extack: "attribute 9 is missing" })
  })

  test("that says it answers a request of 4 GB has no extack", () => {
    const wire = hex`
      2c000000 0200 0002 01000000 00000000 eaffffff ffffffff 1000 0500 01000000 00000000 0800 0500 09000000`
    expect(readAcknowledgement(only(wire))).toEqual({ errno: 22 })
  })

  test("that is too short is refused", () => {
    expect(() => readAcknowledgement(only(hex`14000000 0200 0000 01000000 00000000 eaffffff`))).toThrow(DecodeError)
  })

  test("has the same errno in node-netlink", () => {
    const { data, flags } = parseMessages(Buffer.from(mtuTooSmall))[0] ?? { data: Buffer.of(), flags: 0 }
    expect(parseError(data, flags).errno).toBe(-readAcknowledgement(only(mtuTooSmall)).errno)
  })
})

describe("the end of a dump", () => {
  test("has an errno", () => {
    expect(readDone(only(hex`14000000 0300 0200 01000000 00000000 00000000`))).toEqual({ errno: 0 })
    expect(readDone(only(hex`14000000 0300 0200 01000000 00000000 fcffffff`))).toEqual({ errno: 4 })
  })

  test("may have words", () => {
    const wire = hex`20000000 0300 0202 01000000 00000000 eaffffff 0a00 0100 6e6f70652100 0000`
    expect(readDone(only(wire))).toEqual({ errno: 22, extack: "nope!" })
  })

  test("is plain success when the kernel is too old to say more", () => {
    expect(readDone(only(hex`10000000 0300 0200 01000000 00000000`))).toEqual({ errno: 0 })
  })
})

// struct nfgenmsg, <linux/netfilter/nfnetlink.h>, in which res_id has network order
test("messages of netfilter begin with family, version 0 and resource", () => {
  expect(netfilterHeader(2)).toEqual(hex`02 00 0000`)
  expect(netfilterHeader(0, 10)).toEqual(hex`00 00 000a`)
})

test("any datagram gives messages and outcomes, or a DecodeError", () => {
  expectOnlyDecodeErrors(
    (bytes) => readMessages(bytes).flatMap((m) => [readAcknowledgement(m), readDone(m)]),
    mtuTooSmall,
  )
  const message = only(mtuTooSmall)
  expectOnlyDecodeErrors((payload) => readAcknowledgement({ ...message, payload }), message.payload)
  expectOnlyDecodeErrors((payload) => readDone({ ...message, payload }))
})

test("an error says what was refused, and the kernel's reason in its own words", () => {
  const error = new NetlinkError('create bridge "cni0"', 95, "Unknown device type")
  expect(error.message).toBe('create bridge "cni0": Unknown device type (EOPNOTSUPP)')
  expect(error).toMatchObject({ name: "NetlinkError", errno: "EOPNOTSUPP", extack: "Unknown device type" })
})

test("without an extack it has the errno alone", () => {
  expect(new NetlinkError("list links", 1).message).toBe("list links: EPERM")
  expect(new NetlinkError("list links", "EAGAIN").message).toBe("list links: EAGAIN")
})

test("isErrno knows it like an error of a system call", () => {
  expect(isErrno(new NetlinkError("create link", 17), "EEXIST")).toBe(true)
})
