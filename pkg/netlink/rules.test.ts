import { describe, expect, test } from "bun:test"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { addRule, listRules, type Rule, toDeleteRule } from "./rules.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import {
  acknowledge,
  done,
  expectOnlyDecodeErrors,
  hex,
  ip,
  listing,
  requestOf,
  ScriptedKernel,
  tree,
} from "./testing.ts"

// The bytes below a command are those that iproute2 6.1.0 sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND

const layout = { header: 12 }
const bySource: Rule = { family: AF_INET, src: { ip: ip("10.1.0.0"), prefix: 16 }, table: 100, priority: 1000 }
const byAll: Rule = {
  family: AF_INET,
  src: { ip: ip("10.1.2.3"), prefix: 32 },
  dst: { ip: ip("10.9.0.0"), prefix: 16 },
  inputInterface: "br0",
  outputInterface: "lo",
  mark: 0x10,
  mask: 0xff,
  table: 5000,
  priority: 1001,
}

const byTransport: Rule = {
  family: AF_INET,
  src: { ip: ip("10.1.2.3"), prefix: 32 },
  tos: 0x10,
  sourcePorts: { first: 100, last: 200 },
  destinationPorts: { first: 53, last: 53 },
  ipProtocol: 17,
  users: { first: 1000, last: 2000 },
  suppressPrefixLength: 0,
  table: 100,
  priority: 899,
}
const byInverse: Rule = {
  family: AF_INET,
  not: true,
  src: { ip: ip("10.1.2.3"), prefix: 32 },
  mark: 1,
  mask: 15,
  suppressGroup: 5,
  table: 5000,
  priority: 898,
  protocol: 4,
}
const byVrf: Rule = { family: AF_INET, l3Master: true, table: 0, priority: 900 }
const byTunnel: Rule = {
  family: AF_INET6,
  dst: { ip: ip("2001:db8:0:0:0:0:0:0"), prefix: 32 },
  inputInterface: "lo",
  outputInterface: "eth9",
  ipProtocol: 6,
  destinationPorts: { first: 80, last: 443 },
  tunnelId: 7n,
  table: 100,
  priority: 901,
}

describe("adding", () => {
  // ip rule add from 10.1.0.5 lookup 100 proto 67
  test("with the number of the program that makes it", () => {
    const captured = hex`
      02 00 20 00 64 00 00 01 00000000
      0800 0200 0a010005
      0500 1500 43 000000`
    const rule: Rule = { family: AF_INET, src: { ip: ip("10.1.0.5"), prefix: 32 }, table: 100 }
    const { payload: without } = requestOf((route) => addRule(route, rule))
    const { payload } = requestOf((route) => addRule(route, { ...rule, protocol: 67 }))
    expect(payload).toEqual(new Uint8Array([...without, ...captured.slice(-8)]))
  })

  // ip rule add from 10.1.0.0/16 table 100 pref 1000
  test("by source names the table in the header and, unlike ip, again as an attribute", () => {
    const { type, flags, payload } = requestOf((route) => addRule(route, bySource))
    expect({ type, flags }).toEqual({ type: 32, flags: 0x605 })
    expect(payload).toEqual(hex`
      02 00 10 00 64 00 00 01 00000000  # struct fib_rule_hdr: AF_INET, from /16, table 100, FR_ACT_TO_TBL
      0800 0200 0a010000                # FRA_SRC
      0800 0600 e8030000                # FRA_PRIORITY
      0800 0f00 64000000                # FRA_TABLE`)
    const captured = hex`02 00 10 00 64 00 00 01 00000000 0800 0200 0a010000 0800 0600 e8030000`
    expect(tree(payload, layout)).toEqual({ ...tree(captured, layout), 15: "64000000" })
  })

  // The same rule for tables 255 and 256; the latter does not fit into eight bits.
  test.each([
    [255, hex`02 00 10 00 ff 00 00 01 00000000 0800 0200 0a010000 0800 0600 e8030000 0800 0f00 ff000000`],
    [256, hex`02 00 10 00 00 00 00 01 00000000 0800 0200 0a010000 0800 0600 e8030000 0800 0f00 00010000`],
  ])("has table %d in the header as far as it fits", (table, payload) => {
    expect(requestOf((route) => addRule(route, { ...bySource, table })).payload).toEqual(payload)
  })

  // ip rule add from 10.1.2.3 to 10.9.0.0/16 iif br0 oif lo fwmark 0x10/0xff table 5000 pref 1001
  test("by everything, to a table beyond eight bits", () => {
    const { payload } = requestOf((route) => addRule(route, byAll))
    const captured = hex`
      02 10 20 00 00 00 00 01 00000000
      0800 0200 0a010203
      0800 0100 0a090000
      0800 0300 62723000
      0700 1100 6c6f00 00
      0800 0a00 10000000
      0800 1000 ff000000
      0800 0f00 88130000
      0800 0600 e9030000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // ip rule add from 10.1.2.3 tos 0x10 sport 100-200 dport 53 ipproto udp uidrange 1000-2000 suppress_prefixlength 0
  // table 100 pref 899
  test("by what the transport and the socket say, passing over default routes", () => {
    const { payload } = requestOf((route) => addRule(route, byTransport))
    const captured = hex`
      02 00 20 10 64 00 00 01 00000000
      0800 0200 0a010203
      0800 1700 6400 c800
      0800 1800 3500 3500
      0500 1600 11 000000
      0c00 1400 e8030000 d0070000
      0800 0e00 00000000
      0800 0600 83030000`
    expect(tree(payload, layout)).toEqual({ ...tree(captured, layout), 15: "64000000" })
  })

  // ip rule add not from 10.1.2.3 fwmark 0x1/0xf suppress_ifgroup 5 table 5000 pref 898 protocol static
  test("for what does not match", () => {
    const { payload } = requestOf((route) => addRule(route, byInverse))
    const captured = hex`
      02 00 20 00 00 00 00 01 02000000
      0800 0200 0a010203
      0800 0a00 01000000
      0800 1000 0f000000
      0800 0d00 05000000
      0800 0f00 88130000
      0800 0600 82030000
      0500 1500 04 000000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // ip rule add l3mdev pref 900
  test("by VRF, without any table", () => {
    const { payload } = requestOf((route) => addRule(route, byVrf))
    const captured = hex`02 00 00 00 00 00 00 01 00000000 0500 1300 01 000000 0800 0600 84030000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // ip -6 rule add to 2001:db8::/32 iif lo oif eth9 ipproto tcp dport 80-443 tun_id 7 table 100 pref 901
  test("by tunnel, for IPv6", () => {
    const { payload } = requestOf((route) => addRule(route, byTunnel))
    const captured = hex`
      0a 20 00 00 64 00 00 01 00000000
      1400 0100 20010db8000000000000000000000000
      0700 0300 6c6f00 00
      0900 1100 6574683900 000000
      0500 1600 06 000000
      0800 1800 5000 bb01
      0c00 0c00 0000000000000007
      0800 0600 85030000`
    expect(tree(payload, layout)).toEqual({ ...tree(captured, layout), 15: "64000000" })
  })

  // ip -6 rule add from 2001:db8::/64 table 100 pref 5
  test("for IPv6", () => {
    const src = { ip: ip("2001:db8:0:0:0:0:0:0"), prefix: 64 }
    const { payload } = requestOf((route) => addRule(route, { family: AF_INET6, src, table: 100, priority: 5 }))
    const captured = hex`
      0a 00 40 00 64 00 00 01 00000000
      1400 0200 20010db8000000000000000000000000
      0800 0600 05000000`
    expect(tree(payload, layout)).toEqual({ ...tree(captured, layout), 15: "64000000" })
  })
})

// ip rule del from 10.1.0.0/16 table 100 pref 1000, which has no action and therefore matches any
test("deleting says the same as adding", () => {
  const { type, flags, payload } = requestOf((route) => route.execute(toDeleteRule(bySource)))
  expect({ type, flags }).toEqual({ type: 33, flags: 0x5 })
  expect(payload).toEqual(requestOf((route) => addRule(route, bySource)).payload)
})

// The kernel's answer to `ip rule show`, Linux 6.18.
const local = hex`
  02 00 00 00 ff 00 00 01 00000000
  0800 0f00 ff000000 0800 0e00 ffffffff 0500 1500 02 000000`
const everything = hex`
  02 10 20 00 fc 00 00 01 00000000  # table 252: look at FRA_TABLE
  0800 0f00 88130000 0800 0e00 ffffffff 0500 1500 00 000000
  0800 0300 62723000 0700 1100 6c6f00 00 0800 0600 e9030000
  0800 0a00 10000000 0800 1000 ff000000 0800 0100 0a090000 0800 0200 0a010203`

const inverse = hex`
  02 00 20 00 fc 00 00 01 02000000
  0800 0f00 88130000 0800 0e00 ffffffff 0500 1500 04 000000 0800 0600 82030000
  0800 0a00 01000000 0800 1000 0f000000 0800 0d00 05000000 0800 0200 0a010203`
const transport = hex`
  02 00 20 10 64 00 00 01 00000000
  0800 0f00 64000000 0800 0e00 00000000 0500 1500 00 000000 0800 0600 83030000
  0c00 1400 e8030000 d0070000 0800 1700 6400 c800 0800 1800 3500 3500
  0600 1d00 ffff 0000               # FRA_DPORT_MASK, since Linux 6.15
  0500 1600 11 000000 0800 0200 0a010203`
const vrf = hex`
  02 00 00 00 00 00 00 01 00000000
  0800 0f00 00000000 0800 0e00 ffffffff 0500 1500 00 000000 0800 0600 84030000 0500 1300 01 000000`

describe("listing", () => {
  test("gives what the kernel says", () => {
    expect(listRules(listing(local, everything), AF_INET)).toEqual([
      { family: AF_INET, table: 255, protocol: 2 },
      { ...byAll, protocol: 0 },
    ])
  })

  test("gives all selectors, and none where the kernel has none", () => {
    expect(listRules(listing(inverse, transport, vrf), AF_INET)).toEqual([
      byInverse,
      { ...byTransport, protocol: 0 },
      { ...byVrf, protocol: 0 },
    ])
  })

  test("asks for a family", () => {
    const kernel = new ScriptedKernel((request) => [done(request)])
    expect(listRules(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), AF_INET6)).toEqual([])
    expect(kernel.datagrams).toEqual([hex`1c000000 2200 0103 01000000 00000000 0a 00 00 00 00 00 00 00 00000000`])
  })

  test("any payload gives a rule or a DecodeError", () => {
    expectOnlyDecodeErrors((payload) => listRules(listing(payload), AF_INET), everything, inverse, transport, vrf)
  })
})

test("errors show the rule as ip would be given it", () => {
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, 17)]))
  expect(() => addRule(route, bySource)).toThrow("add rule from 10.1.0.0/16 table 100: EEXIST")
  expect(() => route.execute(toDeleteRule(byAll))).toThrow(
    "delete rule from 10.1.2.3/32 to 10.9.0.0/16 table 5000: EEXIST",
  )
  expect(() => route.execute(toDeleteRule(byInverse))).toThrow("delete rule not from 10.1.2.3/32 table 5000: EEXIST")
  expect(() => addRule(route, byVrf)).toThrow("add rule l3mdev: EEXIST")
})
