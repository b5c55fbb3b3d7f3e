import { describe, expect, test } from "bun:test"
import { addAddress, deleteAddress, listAddresses, readAddress, toRestoreAddress } from "./addresses.ts"
import type { Ifindex } from "./links.ts"
import type { Message } from "./message.ts"
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
  tree,
} from "./testing.ts"

// The bytes below a command are those that iproute2 6.1.0 sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND

const br0 = linkNumber(3, "br0")

describe("adding", () => {
  test.each([
    [
      "ip addr add 10.1.2.3/24 brd + dev br0",
      { ip: ip("10.1.2.3"), prefix: 24 },
      hex`
        02 18 00 00 03000000    # struct ifaddrmsg: AF_INET, /24, flags, scope global, index 3
        0800 0200 0a010203      # IFA_LOCAL
        0800 0100 0a010203      # IFA_ADDRESS
        0800 0400 0a0102ff      # IFA_BROADCAST`,
    ],
    [
      "ip addr add 10.1.2.4/32 dev br0: no broadcast for a single address",
      { ip: ip("10.1.2.4"), prefix: 32 },
      hex`02 20 00 00 03000000 0800 0200 0a010204 0800 0100 0a010204`,
    ],
    [
      "ip addr add 2001:db8::2/64 dev br0",
      { ip: ip("2001:db8:0:0:0:0:0:2"), prefix: 64 },
      hex`
        0a 40 00 00 03000000
        1400 0200 20010db8000000000000000000000002
        1400 0100 20010db8000000000000000000000002`,
    ],
  ])("%s", (_, address, payload) => {
    expect(requestOf((route) => addAddress(route, br0, address))).toEqual({ type: 20, flags: 0x605, payload })
  })

  // ip -6 addr add 2001:db8::9/64 dev br0 valid_lft 3600 preferred_lft 1800 noprefixroute nodad
  test("again what a link had: its lifetimes and the flags that can be given, none that the kernel sets", () => {
    const flags = 0x02 | 0x200 | 0x40 | 0x08 // NODAD, NOPREFIXROUTE, TENTATIVE, DADFAILED
    const lifetimes = { preferred: 1800, valid: 3600 }
    const nine = { ip: ip("2001:db8:0:0:0:0:0:9"), prefix: 64, index: 3 as Ifindex, flags, scope: 0, lifetimes }
    expect(toRestoreAddress(nine)).toMatchObject({ type: 20, flags: 0x600 })
    expect(tree(toRestoreAddress(nine).payload, { header: 8 })).toEqual({
      ...tree(
        hex`
          0a 40 00 00 03000000
          1400 0200 20010db8000000000000000000000009
          0800 0800 02020000
          1400 0100 20010db8000000000000000000000009
          1400 0600 08070000 100e0000 00000000 00000000  # struct ifa_cacheinfo`,
        { header: 8 },
      ),
      header: "0a40020003000000", // with the old flags
    })
    expect(tree(toRestoreAddress({ ...nine, lifetimes: undefined }).payload, { header: 8 })).not.toHaveProperty("6")
  })

  test("lifetimes are read of an address that does not stay, in seconds", () => {
    const said = (flags: string) =>
      Uint8Array.fromHex(
        `0a400000030000001400010020010db8000000000000000000000009080008${`00${flags}`}1400060008070000100e00000000000000000000`,
      )
    const [stays, goes] = [said("80000000"), said("00000000")].map((payload) => listAddresses(listing(payload))[0])
    expect(goes?.lifetimes).toEqual({ preferred: 1800, valid: 3600 })
    expect(stays?.lifetimes).toBeUndefined()
  })

  // ip addr add 2001:db8::1/64 dev br0 nodad
  test("without duplicate address detection sets IFA_F_NODAD, in the header and in IFA_FLAGS", () => {
    const address = { ip: ip("2001:db8:0:0:0:0:0:1"), prefix: 64, noDad: true }
    const { payload } = requestOf((route) => addAddress(route, br0, address))
    expect(payload).toEqual(hex`
      0a 40 02 00 03000000
      1400 0200 20010db8000000000000000000000001
      1400 0100 20010db8000000000000000000000001
      0800 0800 02000000`)
    const captured = hex`
      0a 40 02 00 03000000
      1400 0200 20010db8000000000000000000000001
      1400 0100 20010db8000000000000000000000001`
    expect(tree(payload, { header: 8 })).toEqual({ ...tree(captured, { header: 8 }), 8: "02000000" })
  })

  test("IPv4 has no detection to leave out", () => {
    const address = { ip: ip("10.1.2.4"), prefix: 32 }
    const plain = requestOf((route) => addAddress(route, br0, address))
    expect(requestOf((route) => addAddress(route, br0, { ...address, noDad: true }))).toEqual(plain)
  })

  test.each([
    ["10.1.2.3", 0, "ffffffff"],
    ["10.1.2.3", 7, "0bffffff"],
    ["10.1.2.3", 8, "0affffff"],
    ["10.1.2.3", 30, "0a010203"],
    ["10.1.2.128", 25, "0a0102ff"],
    ["10.1.2.3", 31, undefined], // RFC 3021: a link between two hosts has no broadcast address
  ])("the broadcast address of %s/%d has all host bits set", (text, prefix, broadcast) => {
    const { payload } = requestOf((route) => addAddress(route, br0, { ip: ip(text), prefix }))
    expect(tree(payload, { header: 8 })[4]).toBe(broadcast)
  })
})

describe("deleting", () => {
  test.each([
    [
      "ip addr del 10.1.2.4/32 dev br0",
      { ip: ip("10.1.2.4"), prefix: 32 },
      hex`02 20 00 00 03000000 0800 0200 0a010204 0800 0100 0a010204`,
    ],
    [
      "ip addr del 2001:db8::2/64 dev br0",
      { ip: ip("2001:db8:0:0:0:0:0:2"), prefix: 64 },
      hex`
        0a 40 00 00 03000000
        1400 0200 20010db8000000000000000000000002
        1400 0100 20010db8000000000000000000000002`,
    ],
  ])("%s", (_, address, payload) => {
    expect(requestOf((route) => deleteAddress(route, br0, address))).toEqual({ type: 21, flags: 0x5, payload })
  })
})

// The kernel's answers to `ip -4 addr show` and `ip -6 addr show dev br0`, Linux 6.18.
const v4 = hex`
  02 18 80 00 03000000
  0800 0100 0a010203 0800 0200 0a010203 0800 0400 0a0102ff 0800 0300 62723000 0800 0800 80000000
  1400 0600 ffffffff ffffffff df9f0300 df9f0300`
const pointToPoint = hex`
  02 20 80 00 02000000
  0800 0100 0a090902 0800 0200 0a090901 0700 0300 763000 00 0800 0800 80000000`
const v6 = hex`
  0a 40 82 00 03000000
  1400 0100 20010db8000000000000000000000001
  1400 0600 ffffffff ffffffff e09f0300 e09f0300
  0800 0800 82000000`
const tentative = hex`
  0a 40 c0 fd 03000000
  1400 0100 fe80000000000000080000fffe000003
  0800 0800 c0000000
  0500 0b00 03 000000`

describe("listing", () => {
  test("gives what the kernel says: IPv4 and IPv6, flags, scope", () => {
    expect(listAddresses(listing(v4, v6, tentative))).toEqual([
      { ip: ip("10.1.2.3"), prefix: 24, index: 3 as Ifindex, flags: 0x80, scope: 0 },
      { ip: ip("2001:db8:0:0:0:0:0:1"), prefix: 64, index: 3 as Ifindex, flags: 0x82, scope: 0 },
      { ip: ip("fe80:0:0:0:800:ff:fe00:3"), prefix: 64, index: 3 as Ifindex, flags: 0xc0, scope: 253 },
    ])
  })

  test("the address of a point-to-point link is our end, not the peer's", () => {
    expect(listAddresses(listing(pointToPoint))).toEqual([
      { ip: ip("10.9.9.1"), prefix: 32, index: 2 as Ifindex, flags: 0x80, scope: 0 },
    ])
  })

  test("flags beyond eight bits come from IFA_FLAGS, older kernels' from the header", () => {
    const read = (payload: Uint8Array) => listAddresses(listing(payload))[0]?.flags
    expect(read(hex`0a 40 80 00 03000000 0800 0800 80020000`)).toBe(0x280)
    expect(read(hex`0a 40 80 00 03000000`)).toBe(0x80)
  })

  test("of one link asks for that link, and leaves out what an old kernel adds", () => {
    expect(listAddresses(listing(v4, pointToPoint), br0).map(({ index }) => Number(index))).toEqual([3])
    const kernel = new ScriptedKernel((request) => [done(request)])
    listAddresses(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), br0, 10)
    expect(kernel.datagrams).toEqual([hex`18000000 1600 0103 01000000 00000000 0a 00 00 00 03000000`])
  })

  test("any payload gives an address or a DecodeError", () => {
    const message = (payload: Uint8Array): Message => ({ type: 20, flags: 0, sequence: 1, payload })
    expectOnlyDecodeErrors((payload) => readAddress(message(payload)), v4, v6)
  })
})

describe("errors", () => {
  test("show addresses as ip prints them", () => {
    const route = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, 17)]))
    expect(() => addAddress(route, br0, { ip: ip("2001:db8:0:0:0:0:0:1"), prefix: 64 })).toThrow(
      'add address 2001:db8::1/64 to "br0": EEXIST',
    )
    expect(() => deleteAddress(route, br0, { ip: ip("10.1.2.3"), prefix: 24 })).toThrow(
      'delete address 10.1.2.3/24 from "br0": EEXIST',
    )
  })
})
