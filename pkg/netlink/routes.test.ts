import { describe, expect, test } from "bun:test"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import type { Ifindex } from "./links.ts"
import { addRoute, deleteRoute, listRoutes, RouteScope, type RouteSpec, toDeleteListedRoute } from "./routes.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import {
  acknowledge,
  done,
  expectOnlyDecodeErrors,
  hex,
  ip,
  type Layout,
  listing,
  requestOf,
  ScriptedKernel,
  tree,
} from "./testing.ts"

// The bytes below a command are those that iproute2 6.1.0 sent for it, without struct nlmsghdr:
//   strace -e trace=sendmsg -e write=3 COMMAND

const br0 = 3 as Ifindex
/** struct rtmsg, and the attribute of metrics, which contains attributes. */
const layout: Layout = { header: 12, nested: { 8: {} } }
const net = (text: string, prefix = 16) => ({ dst: ip(text), prefix })
const added = (spec: RouteSpec) => requestOf((route) => addRoute(route, spec)).payload

describe("adding", () => {
  test.each([
    [
      "ip route add default via 10.1.2.1",
      { ...net("0.0.0.0", 0), gateway: ip("10.1.2.1") },
      hex`
        02 00 00 00 fe 03 00 01 00000000  # struct rtmsg: AF_INET, /0, table main, proto boot, scope global, unicast
        0800 0500 0a010201                # RTA_GATEWAY`,
    ],
    [
      "ip route add 10.2.0.0/16 dev br0 (which is of scope link when it has no gateway)",
      { ...net("10.2.0.0"), index: br0, scope: RouteScope.Link },
      hex`
        02 10 00 00 fe 03 fd 01 00000000
        0800 0100 0a020000                # RTA_DST
        0800 0400 03000000                # RTA_OIF`,
    ],
    [
      "ip route add 10.5.0.0/16 dev br0 scope host",
      { ...net("10.5.0.0"), index: br0, scope: RouteScope.Host },
      hex`02 10 00 00 fe 03 fe 01 00000000 0800 0100 0a050000 0800 0400 03000000`,
    ],
    [
      "ip route add 10.6.0.0/16 via 10.1.2.1 table 100",
      { ...net("10.6.0.0"), gateway: ip("10.1.2.1"), table: 100 },
      hex`02 10 00 00 64 03 00 01 00000000 0800 0100 0a060000 0800 0500 0a010201`,
    ],
    [
      "ip route add 10.6.0.0/16 via 10.1.2.1 table 255",
      { ...net("10.6.0.0"), gateway: ip("10.1.2.1"), table: 255 },
      hex`02 10 00 00 ff 03 00 01 00000000 0800 0100 0a060000 0800 0500 0a010201`,
    ],
    [
      "ip route add 10.6.0.0/16 via 10.1.2.1 table 256",
      { ...net("10.6.0.0"), gateway: ip("10.1.2.1"), table: 256 },
      hex`02 10 00 00 00 03 00 01 00000000 0800 0100 0a060000 0800 0500 0a010201 0800 0f00 00010000`,
    ],
    [
      "ip route add 10.6.0.0/16 via 10.1.2.1 table 5000 (beyond eight bits: RTA_TABLE)",
      { ...net("10.6.0.0"), gateway: ip("10.1.2.1"), table: 5000 },
      hex`02 10 00 00 00 03 00 01 00000000 0800 0100 0a060000 0800 0500 0a010201 0800 0f00 88130000`,
    ],
    [
      "ip route add 10.7.0.0/16 nexthop via 10.1.2.1 dev br0 weight 1 nexthop via 192.0.2.2 dev br0 weight 10 onlink",
      {
        ...net("10.7.0.0"),
        nextHops: [
          { gateway: ip("10.1.2.1"), index: br0 },
          { gateway: ip("192.0.2.2"), index: br0, weight: 10, onLink: true },
        ],
      },
      hex`
        02 10 00 00 fe 03 00 01 00000000
        0800 0100 0a070000
        2400 0900                                        # RTA_MULTIPATH
          1000 00 00 03000000 0800 0500 0a010201         # struct rtnexthop: length, flags, weight - 1, index
          1000 04 09 03000000 0800 0500 c0000202         # RTNH_F_ONLINK`,
    ],
    [
      "ip -6 route add 2001:db8:7::/48 nexthop via 2001:db8::11 dev br0 nexthop via 2001:db8::12 dev br0 weight 2",
      {
        ...net("2001:db8:7:0:0:0:0:0", 48),
        nextHops: [
          { gateway: ip("2001:db8:0:0:0:0:0:11"), index: br0, weight: 1 },
          { gateway: ip("2001:db8:0:0:0:0:0:12"), index: br0, weight: 2 },
        ],
      },
      hex`
        0a 30 00 00 fe 03 00 01 00000000
        1400 0100 20010db8000700000000000000000000
        3c00 0900
          1c00 00 00 03000000 1400 0500 20010db8000000000000000000000011
          1c00 00 01 03000000 1400 0500 20010db8000000000000000000000012`,
    ],
  ] as [string, RouteSpec, Uint8Array][])("%s", (_, spec, payload) => {
    expect(requestOf((route) => addRoute(route, spec))).toEqual({ type: 24, flags: 0x605, payload })
  })

  // ip route add 10.3.0.0/16 via 10.1.2.1 dev br0 mtu 1400 advmss 1360 metric 100 src 10.1.2.3
  test("with metrics, priority and source", () => {
    const payload = added({
      ...net("10.3.0.0"),
      gateway: ip("10.1.2.1"),
      index: br0,
      mtu: 1400,
      advmss: 1360,
      priority: 100,
      preferredSource: ip("10.1.2.3"),
    })
    expect(payload).toEqual(hex`
      02 10 00 00 fe 03 00 01 00000000
      0800 0100 0a030000                        # RTA_DST
      0800 0400 03000000                        # RTA_OIF
      0800 0500 0a010201                        # RTA_GATEWAY
      0800 0600 64000000                        # RTA_PRIORITY
      0800 0700 0a010203                        # RTA_PREFSRC
      1400 0880                                 # RTA_METRICS | NLA_F_NESTED
        0800 0200 78050000 0800 0800 50050000   # RTAX_MTU, RTAX_ADVMSS`)
    const captured = hex`
      02 10 00 00 fe 03 00 01 00000000
      0800 0100 0a030000
      0800 0500 0a010201
      0800 0600 64000000
      0800 0700 0a010203
      0800 0400 03000000
      1400 0800 0800 0200 78050000 0800 0800 50050000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // ip route add 10.4.0.0/16 via 192.0.2.1 dev br0 onlink
  test("through a gateway that no address leads to", () => {
    const payload = added({ ...net("10.4.0.0"), gateway: ip("192.0.2.1"), index: br0, onLink: true })
    const captured = hex`
      02 10 00 00 fe 03 00 01 04000000  # RTNH_F_ONLINK
      0800 0100 0a040000 0800 0500 c0000201 0800 0400 03000000`
    expect(tree(payload, layout)).toEqual(tree(captured, layout))
  })

  // ip -6 route add default via 2001:db8::9 dev br0 metric 7 mtu 1280
  test("the default of IPv6, where ip also sends the destination ::", () => {
    const gateway = ip("2001:db8:0:0:0:0:0:9")
    const payload = added({ ...net("0:0:0:0:0:0:0:0", 0), gateway, index: br0, priority: 7, mtu: 1280 })
    const captured = hex`
      0a 00 00 00 fe 03 00 01 00000000
      1400 0100 00000000000000000000000000000000
      1400 0500 20010db8000000000000000000000009
      0800 0600 07000000 0800 0400 03000000
      0c00 0800 0800 0200 00050000`
    const { 1: destination, ...others } = tree(captured, layout)
    expect(destination).toBe("00".repeat(16))
    expect(tree(payload, layout)).toEqual(others)
  })

  test.each([
    ["ip route add", "add", 0x605], // CREATE | EXCL
    ["ip route replace", "replace", 0x505], // CREATE | REPLACE
    ["ip route append", "append", 0xc05], // CREATE | APPEND: without APPEND the new route precedes the old ones
  ] as const)("%s differs in its flags", (_, mode, flags) => {
    const spec = { ...net("10.6.0.0"), gateway: ip("10.1.2.9"), table: 100 }
    expect(requestOf((route) => addRoute(route, spec, mode))).toEqual({
      type: 24,
      flags,
      payload: hex`02 10 00 00 64 03 00 01 00000000 0800 0100 0a060000 0800 0500 0a010209`,
    })
  })

  test("a weight that does not fit is refused", () => {
    const nextHops = [{ index: br0, weight: 257 }]
    expect(() => added({ ...net("10.7.0.0"), nextHops })).toThrow("256 does not fit: expected 0 to 255")
  })
})

describe("deleting", () => {
  test.each([
    [
      "ip route del unicast 10.6.0.0/16 via 10.1.2.1 table 5000",
      { ...net("10.6.0.0"), gateway: ip("10.1.2.1"), table: 5000 },
      hex`
        02 10 00 00 00 00 ff 01 00000000  # any protocol, scope nowhere: any
        0800 0100 0a060000 0800 0500 0a010201 0800 0f00 88130000`,
    ],
    [
      "ip -6 route del unicast 2001:db8:7::/48 scope nowhere",
      net("2001:db8:7:0:0:0:0:0", 48),
      hex`0a 30 00 00 fe 00 ff 01 00000000 1400 0100 20010db8000700000000000000000000`,
    ],
  ] as [string, RouteSpec, Uint8Array][])("%s", (_, spec, payload) => {
    expect(requestOf((route) => deleteRoute(route, spec))).toEqual({ type: 25, flags: 0x5, payload })
  })

  test("of a given scope deletes no other", () => {
    const { payload } = requestOf((route) => deleteRoute(route, { ...net("10.2.0.0"), scope: RouteScope.Link }))
    expect(payload[6]).toBe(253)
  })

  test("a listed route goes only while it is of its protocol: ip route del unicast 10.64.3.0/26 via 192.0.2.11 dev br0 proto 73", () => {
    const listed = {
      ...net("10.64.3.0", 26),
      gateway: ip("192.0.2.11"),
      index: br0,
      table: 254,
      scope: RouteScope.Universe,
      protocol: 73,
      type: 1,
      flags: 0,
    }
    expect(toDeleteListedRoute(listed).payload).toEqual(hex`
      02 1a 00 00 fe 49 00 01 00000000
      0800 0100 0a400300 0800 0400 03000000 0800 0500 c000020b`)
  })
})

// The kernel's answers to `ip -4 route show table all` and `ip -6 route show`, Linux 6.18.
const plain = hex`
  02 10 00 00 fe 03 00 01 00000000
  0800 0f00 fe000000                                              # RTA_TABLE
  0800 0100 0a030000 0800 0600 64000000
  1400 0800 0800 0200 78050000 0800 0800 50050000                 # RTA_METRICS, without NLA_F_NESTED
  0800 0700 0a010203 0800 0500 0a010201 0800 0400 03000000`
const inTable5000 = hex`
  02 10 00 00 fc 03 00 01 04000000                                # table 252: look at RTA_TABLE; RTNH_F_ONLINK
  0800 0f00 88130000 0800 0100 0a040000 0800 0500 c0000201 0800 0400 03000000`
const defaultRoute = hex`
  02 00 00 00 fe 03 00 01 00000000 0800 0f00 fe000000 0800 0500 0a010201 0800 0400 03000000`
const ofKernel = hex`
  02 20 00 00 ff 02 fe 02 00000000 0800 0f00 ff000000 0800 0100 0a010203 0800 0700 0a010203 0800 0400 03000000`
const multipath6 = hex`
  0a 30 00 00 fe 03 00 01 00000000
  0800 0f00 fe000000
  1400 0100 20010db8000700000000000000000000
  0800 0600 00040000
  3c00 0900
    1c00 00 00 03000000 1400 0500 20010db8000000000000000000000011
    1c00 00 01 03000000 1400 0500 20010db8000000000000000000000012
  2400 0c00 0000000000000000000000000000000000000000000000000000000000000000
  0500 1400 00 000000`

/** The attributes of a route added by `ip route add … dev br0`. */
const made = { index: br0, scope: RouteScope.Universe, protocol: 3, type: 1, flags: 0 }

describe("listing", () => {
  test("gives gateway, link, priority, source and metrics", () => {
    expect(listRoutes(listing(plain), AF_INET)).toEqual([
      {
        ...net("10.3.0.0"),
        gateway: ip("10.1.2.1"),
        index: br0,
        priority: 100,
        preferredSource: ip("10.1.2.3"),
        mtu: 1400,
        advmss: 1360,
        table: 254,
        scope: 0,
        protocol: 3,
        type: 1,
        flags: 0,
      },
    ])
  })

  test("gives tables beyond eight bits, on-link gateways, default routes and the kernel's own", () => {
    expect(listRoutes(listing(inTable5000, defaultRoute, ofKernel), AF_INET)).toEqual([
      { ...net("10.4.0.0"), ...made, gateway: ip("192.0.2.1"), table: 5000, onLink: true, flags: 4 },
      { ...net("0.0.0.0", 0), ...made, gateway: ip("10.1.2.1"), table: 254 },
      {
        ...net("10.1.2.3", 32),
        ...made,
        preferredSource: ip("10.1.2.3"),
        table: 255,
        scope: RouteScope.Host,
        protocol: 2,
        type: 2,
      },
    ])
  })

  test("gives the ways of a multipath route", () => {
    expect(listRoutes(listing(multipath6), AF_INET6)[0]?.nextHops).toEqual([
      { gateway: ip("2001:db8:0:0:0:0:0:11"), index: br0, weight: 1 },
      { gateway: ip("2001:db8:0:0:0:0:0:12"), index: br0, weight: 2 },
    ])
    const onLink = hex`02 10 00 00 fe 03 00 01 00000000 0c00 0900 0800 04 09 03000000`
    expect(listRoutes(listing(onLink), AF_INET)[0]?.nextHops).toEqual([{ index: br0, weight: 10, onLink: true }])
  })

  test("finds the next way after padding", () => {
    const odd = hex`
      02 10 00 00 fe 03 00 01 00000000
      1c00 0900
        0d00 00 00 03000000 0500 0500 aa 000000
        0800 00 00 04000000`
    expect(listRoutes(listing(odd), AF_INET)[0]?.nextHops).toEqual([
      { gateway: hex`aa`, index: br0, weight: 1 },
      { index: 4 as Ifindex, weight: 1 },
    ])
  })

  test("leaves out what the kernel has only remembered", () => {
    const cached = plain.slice()
    cached[9] = 2 // RTM_F_CLONED 0x200
    expect(listRoutes(listing(cached, defaultRoute), AF_INET)).toHaveLength(1)
  })

  test("asks for a family", () => {
    const kernel = new ScriptedKernel((request) => [done(request)])
    listRoutes(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), AF_INET6)
    expect(kernel.datagrams).toEqual([hex`1c000000 1a00 0103 01000000 00000000 0a 00 00 00 00 00 00 00 00000000`])
  })

  // RTA_TABLE 15, with which `ip route show table main` filters on a kernel that checks requests strictly.
  const ENOENT = 2

  test.each([
    [254, hex`24000000 1a00 0103 01000000 00000000 02 00 00 00 fe 00 00 00 00000000 0800 0f00 fe000000`],
    [255, hex`24000000 1a00 0103 01000000 00000000 02 00 00 00 ff 00 00 00 00000000 0800 0f00 ff000000`],
    [256, hex`24000000 1a00 0103 01000000 00000000 02 00 00 00 00 00 00 00 00000000 0800 0f00 00010000`],
  ])("asks the kernel for one table, %d; without that table there are none", (table, datagram) => {
    const kernel = new ScriptedKernel((request) => [done(request, ENOENT)])
    expect(listRoutes(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), AF_INET, { table })).toEqual([])
    expect(kernel.datagrams).toEqual([datagram])
  })

  // The filter of `ip route show dev br0 proto 67 type unicast`: RTA_OIF 4, rtm_protocol, rtm_type.
  test("asks the kernel for those of a link, a program and a type; without that link there are none", () => {
    const kernel = new ScriptedKernel((request) => [done(request, 19)])
    const filter = { index: br0, protocol: 67, type: 1 }
    expect(listRoutes(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), AF_INET, filter)).toEqual([])
    expect(kernel.datagrams).toEqual([
      hex`24000000 1a00 0103 01000000 00000000 02 00 00 00 00 43 00 01 00000000 0800 0400 03000000`,
    ])
  })

  test("is told that something else is missing", () => {
    const broken = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [done(request, ENOENT)]))
    expect(() => listRoutes(broken, AF_INET)).toThrow("ENOENT")
  })

  test("keeps what is wanted, also when an old kernel lists more", () => {
    const list = (filter: Parameters<typeof listRoutes>[2]) =>
      listRoutes(listing(plain, inTable5000, defaultRoute), AF_INET, filter).map(({ prefix, table }) => [prefix, table])
    const all = list({})
    expect(all).toHaveLength(3)
    expect(list({ table: 5000 })).toEqual(all.filter(([, table]) => table === 5000))
    expect(list({ prefixes: new Set([0]) })).toEqual(all.filter(([prefix]) => prefix === 0))
    const [{ index, protocol, type } = expect.unreachable()] = listRoutes(listing(plain), AF_INET)
    const others = (filter: Parameters<typeof listRoutes>[2]) => listRoutes(listing(plain), AF_INET, filter)
    expect(others({ index: index ?? expect.unreachable(), protocol, type })).toHaveLength(1)
    for (const filter of [{ index: 77 as typeof br0 }, { protocol: protocol + 1 }, { type: type + 1 }]) {
      expect(others(filter)).toEqual([])
    }
    expect(list({ isWanted: ({ prefix }) => prefix > 0 })).toEqual(all.filter(([prefix = 0]) => prefix > 0))
  })

  test("refuses a next hop with a length that cannot be", () => {
    const wrong = hex`02 10 00 00 fe 03 00 01 00000000 0c00 0900 0900 00 00 03000000`
    expect(() => listRoutes(listing(wrong), AF_INET)).toThrow(
      "the next hop at byte 0 has length 9, but only 8 bytes are left",
    )
  })

  test("any payload gives a route or a DecodeError", () => {
    expectOnlyDecodeErrors((payload) => listRoutes(listing(payload), AF_INET), plain, multipath6)
  })
})

test("errors show the route as ip would be given it", () => {
  const route = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => [acknowledge(request, 3)]))
  const viaGateway = { ...net("0.0.0.0", 0), gateway: ip("10.1.2.1") }
  expect(() => addRoute(route, viaGateway)).toThrow("add route default via 10.1.2.1: ESRCH")
  expect(() => addRoute(route, { ...net("10.2.0.0"), table: 7 }, "replace")).toThrow(
    "replace route 10.2.0.0/16 table 7: ESRCH",
  )
  expect(() => deleteRoute(route, net("10.2.0.0"))).toThrow("delete route 10.2.0.0/16: ESRCH")
})
