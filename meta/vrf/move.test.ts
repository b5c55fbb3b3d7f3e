import { afterAll, describe, expect, spyOn, test } from "bun:test"
import { IFF_UP, type Ifindex, RouteSocket } from "../../pkg/netlink/mod.ts"
import { LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import { hex, ip } from "../../pkg/netlink/testing.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { moveLink, noteLosable } from "./move.ts"

const [RTM_GETADDR, RTM_NEWADDR, RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE] = [22, 20, 24, 25, 26]
/** `IFA_F_*`, <linux/if_addr.h> */
const [TEMPORARY, NODAD, DADFAILED, TENTATIVE, PERMANENT] = [0x01, 0x02, 0x08, 0x40, 0x80]
/** `IFF_LOWER_UP`, <linux/if.h> */
const LOWER_UP = 0x10000
/** `RT_SCOPE_*`, `RTN_*` and `RTPROT_*`, <linux/rtnetlink.h> */
const [UNIVERSE, LINK] = [0, 253]
const [UNICAST, LOCAL] = [1, 2]
const [KERNEL, STATIC, RA] = [2, 4, 9]

const attribute = (type: number, value: Uint8Array) => Uint8Array.of(4 + value.length, 0, type, 0, ...value)

/** Encodes an address of link 5 with prefix length 64: struct ifaddrmsg, IFA_ADDRESS and IFA_FLAGS. */
const address = (text: string, flags: number, scope = UNIVERSE) =>
  Uint8Array.of(
    10,
    64,
    flags,
    scope,
    5,
    0,
    0,
    0,
    ...attribute(1, ip(text)),
    ...attribute(8, Uint8Array.of(flags, 0, 0, 0)),
  )

interface Listed {
  dst: string
  prefix: number
  table: number
  protocol?: number
  type?: number
  link?: number
  gateway?: string
  source?: string
}

/** Encodes a route: struct rtmsg, RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PREFSRC and RTA_TABLE. */
const route = ({ dst, prefix, table, protocol = STATIC, type = UNICAST, link = 5, gateway, source }: Listed) =>
  Uint8Array.of(
    ...[10, prefix, 0, 0, table & 0xff, protocol, 0, type, 0, 0, 0, 0],
    ...attribute(1, ip(dst)),
    ...attribute(4, Uint8Array.of(link, 0, 0, 0)),
    ...(gateway ? attribute(5, ip(gateway)) : []),
    ...(source ? attribute(7, ip(source)) : []),
    ...attribute(15, Uint8Array.of(table & 0xff, table >> 8, 0, 0)),
  )

const [first, second] = ["fd00:1:0:0:0:0:0:2", "fd00:1:0:0:0:0:0:3"] as const
/** A link whose name no machine has, so that no sysctl is changed. */
const eth0 = { index: 5, name: "not-there0", flags: IFF_UP | LOWER_UP }
const link = linkOf(eth0)

function kernelWith(
  addresses: readonly Uint8Array[],
  routes: readonly Uint8Array[],
  errnos: Record<number, number> = {},
) {
  const answers = { [RTM_GETADDR]: addresses, [RTM_GETROUTE]: routes }
  return new LinksKernel([eth0], { answers, refusal: ({ type }) => errnos[type] ?? 0 })
}

describe("what a link would lose", () => {
  const fd00 = (last: number) => `fd00:1:0:0:0:0:0:${last}`
  const all = [
    address(fd00(2), PERMANENT),
    address(fd00(3), PERMANENT | NODAD),
    address(fd00(4), PERMANENT | TENTATIVE),
    address(fd00(5), PERMANENT | TENTATIVE | DADFAILED),
    address(fd00(6), 0),
    address("fe80:0:0:0:0:0:0:5", PERMANENT, LINK),
    address(fd00(7), TEMPORARY),
  ]
  const note = (of: typeof link, needed: readonly string[], routes: readonly Uint8Array[] = []) =>
    noteLosable(kernelWith(all, routes).socket, of, { table: 254, needed: needed.map(ip) })
  const shown = (list: readonly { ip: Uint8Array }[]) => list.map((one) => one.ip.toHex())
  const hexOf = (...texts: string[]) => texts.map((text) => ip(text).toHex())

  test("are its addresses of IPv6 in any state, but for temporary ones", () => {
    const { addresses } = note(link, [])
    expect(shown(addresses)).toEqual(hexOf(...[2, 3, 4, 5, 6].map(fd00), "fe80:0:0:0:0:0:0:5"))
    expect(shown(note({ ...link, flags: 0 }, []).addresses)).toEqual(shown(addresses))
  })

  test("are to be ready again if the caller or a route needs them, and if they were ready before and can be again", () => {
    const needed = [...[2, 3, 4, 5].map(fd00), "fe80:0:0:0:0:0:0:5", "fd00:9:0:0:0:0:0:9"]
    expect(shown(note(link, needed).awaited)).toEqual(hexOf(fd00(2), fd00(3)))
    expect(shown(note({ ...link, flags: IFF_UP }, needed).awaited)).toEqual(hexOf(fd00(3)))
    for (const awaited of [note(link, []).awaited, note({ ...link, flags: LOWER_UP }, needed).awaited]) {
      expect(awaited).toEqual([])
    }
    const bySource = route({ dst: "fd09:0:0:0:0:0:0:0", prefix: 16, table: 500, source: fd00(2) })
    expect(shown(note(link, [], [bySource]).awaited)).toEqual(hexOf(fd00(2)))
  })

  test("are the routes of the table that it leaves, but for those that come back by themselves; of others all but the local table", () => {
    const base = { dst: "fd09:0:0:0:0:0:0:0", prefix: 16 }
    const { socket } = kernelWith(
      [],
      [
        route({ ...base, table: 254 }),
        route({ ...base, table: 254, protocol: KERNEL }),
        route({ ...base, table: 254, protocol: RA }),
        route({ ...base, table: 254, link: 6 }),
        route({ ...base, table: 500, protocol: KERNEL }),
        route({ ...base, table: 255 }),
      ],
    )
    const { routes, otherRoutes } = noteLosable(socket, link, { table: 254, needed: [] })
    expect(routes.map(({ table }) => table)).toEqual([254])
    expect(otherRoutes.map(({ table }) => table)).toEqual([500])
  })
})

describe("a link that is moved", () => {
  const heard: number[] = []
  let closed = 0
  const subscribe = spyOn(RouteSocket, "subscribe").mockImplementation((groups) => {
    heard.push(groups)
    return { [Symbol.dispose]: () => void closed++ } as RouteSocket
  })
  afterAll(() => subscribe.mockRestore())

  const sandbox = { run: <T>(action: () => T) => action() } as unknown as Netns
  const local = (text: string, table: number) => route({ dst: text, prefix: 128, table, type: LOCAL })
  const noted = [
    { ip: ip(first), prefix: 64, index: 5 as Ifindex, flags: PERMANENT | NODAD, scope: UNIVERSE },
    { ip: ip(second), prefix: 64, index: 5 as Ifindex, flags: PERMANENT, scope: UNIVERSE },
  ]
  const nothing = { routes: [], otherRoutes: [], connected: new Set<string>(), addresses: [], awaited: [] }
  const move = (kernel: LinksKernel, losable: Parameters<typeof moveLink>[2], master = 9, toTable = 77) =>
    moveLink(
      { sandbox, inside: kernel.socket, link },
      { master: master as Ifindex, fromTable: master === 0 ? 77 : 254, toTable },
      losable,
    )

  test("gets its master, and loses what is left in the table that it came from; without addresses nothing is waited for", () => {
    const left = { dst: "fd09:0:0:0:0:0:0:0", prefix: 16 }
    const kernel = kernelWith([], [route({ ...left, table: 254 }), route({ ...left, table: 500 })], {
      [RTM_DELROUTE]: 0,
    })
    heard.length = 0
    move(kernel, nothing)
    expect(kernel.links).toEqual([{ verb: "set", index: 5, flags: 0, change: 0, master: 9 }])
    expect(kernel.others.map(({ type }) => type)).toEqual([RTM_DELROUTE])
    expect(heard).toEqual([])
    expect(() => move(kernelWith([], [route({ ...left, table: 254 })], { [RTM_DELROUTE]: 3 }), nothing)).not.toThrow()
    expect(() => move(kernelWith([], [route({ ...left, table: 254 })], { [RTM_DELROUTE]: 1 }), nothing)).toThrow(
      "EPERM",
    )
  })

  test("is given the addresses that it has lost, with or without their detection as before, and they are waited for", () => {
    const present = () => (kernel.others.length === 0 ? [] : noted.map(({ ip, flags }) => addressOf(ip, flags)))
    const addressOf = (bytes: Uint8Array, flags: number) =>
      Uint8Array.of(
        10,
        64,
        flags,
        0,
        5,
        0,
        0,
        0,
        ...attribute(1, bytes),
        ...attribute(8, Uint8Array.of(flags, 0, 0, 0)),
      )
    const answers = { [RTM_GETADDR]: present, [RTM_GETROUTE]: [local(first, 77), local(second, 77)] }
    const kernel: LinksKernel = new LinksKernel([eth0], { answers })
    heard.length = closed = 0
    move(kernel, { ...nothing, addresses: noted, awaited: noted })
    const added = kernel.others.filter(({ type }) => type === RTM_NEWADDR).map(({ payload }) => payload)
    expect(added.map((payload) => payload[2])).toEqual([NODAD, 0])
    expect(added.map((payload) => payload.toHex().includes(ip(second).toHex()))).toEqual([false, true])
    expect(heard).toEqual([0x100 | 0x400]) // RTMGRP_IPV6_IFADDR, _IPV6_ROUTE
    expect(closed).toBe(1)
  })

  test("keeps the addresses that it has, and out of a VRF they are local in the table of all", () => {
    const has = noted.map(({ flags }, at) => address([first, second][at] ?? first, flags))
    const kernel = kernelWith(has, [local(first, 255), local(second, 255)])
    move(kernel, { ...nothing, addresses: noted, awaited: noted }, 0, 254)
    expect(kernel.others.filter(({ type }) => type === RTM_NEWADDR)).toEqual([])
  })

  test("is refused an address that another host has", () => {
    const kernel = kernelWith([address(first, PERMANENT | TENTATIVE | DADFAILED)], [])
    expect(() => move(kernel, { ...nothing, addresses: noted.slice(0, 1), awaited: noted.slice(0, 1) })).toThrow(
      'Cannot use fd00:1::2 on "not-there0": another host has it',
    )
  })

  test("gets its routes in the new table, those by gateways last, and the others where they were", () => {
    const spec = (dst: string, table: number, gateway?: string) => ({
      dst: ip(dst),
      prefix: 16,
      index: 5 as Ifindex,
      table,
      ...(gateway && { gateway: ip(gateway) }),
    })
    const kernel = kernelWith([], [])
    const routes = [spec("fd07:0:0:0:0:0:0:0", 254, first), spec("fd08:0:0:0:0:0:0:0", 254)]
    move(kernel, { ...nothing, routes, otherRoutes: [spec("fd09:0:0:0:0:0:0:0", 500)] })
    const added = kernel.others.filter(({ type }) => type === RTM_NEWROUTE).map(({ payload }) => payload.toHex())
    // The table is in rtm_table, or in RTA_TABLE if it does not fit into a byte.
    expect(added.map((text) => [text.slice(8, 10), text.includes(hex`0800 0f00 f4010000`.toHex())])).toEqual([
      ["4d", false],
      ["00", true],
      ["4d", false],
    ])
    expect(added[0]).toContain(ip("fd08:0:0:0:0:0:0:0").toHex())
    expect(added[2]).toContain(ip("fd07:0:0:0:0:0:0:0").toHex())
    expect(() => move(kernelWith([], [], { [RTM_NEWROUTE]: 17 }), { ...nothing, routes })).not.toThrow()
    expect(() => move(kernelWith([], [], { [RTM_NEWROUTE]: 101 }), { ...nothing, routes })).toThrow(
      'Cannot add a route of "not-there0" to table 77',
    )
  })

  test("that the kernel does not let go is told", () => {
    expect(() => move(kernelWith([], [], { 16: 1 }), nothing)).toThrow('Cannot change the VRF of "not-there0"')
  })
})
