import { expect, test } from "bun:test"
import type { Ifindex, NextHop, RouteSpec } from "../netlink/mod.ts"
import { LinksKernel } from "../netlink/testing/links.ts"
import { routePayload } from "../netlink/testing/routes.ts"
import { formatCidr, formatIp, parseIp } from "../types/mod.ts"
import { freeTable, gatewaysLast, listRoutesOf } from "./link-routes.ts"

const ip = (text: string) => parseIp(text) as Uint8Array
const [_RTM_NEWROUTE, RTM_GETROUTE] = [24, 26]

test("routes on the link come before those by gateways, each in their order", () => {
  const route = (prefix: number, way: Partial<RouteSpec> = {}): RouteSpec => ({ dst: ip("10.0.0.0"), prefix, ...way })
  const nextHops: NextHop[] = [{ gateway: ip("10.1.0.1"), index: 5 as Ifindex }]
  const mixed = [route(1, { gateway: ip("10.1.0.1") }), route(2), route(3, { nextHops }), route(4)]
  expect(gatewaysLast(mixed).map(({ prefix }) => prefix)).toEqual([2, 4, 1, 3])
})

test("of a route with several next hops those by the link count: of IPv4 all or none, of IPv6 each by itself", () => {
  const hop = (oif: number, gateway?: string) => ({ oif, ...(gateway === undefined ? {} : { gateway: ip(gateway) }) })
  const four = { dst: ip("10.9.0.0"), prefix: 16 }
  const six = { dst: ip("fd09::"), prefix: 64 }
  const lists = [
    [
      { ...four, oif: 5 },
      { ...four, oif: 6 },
      { ...four, hops: [hop(5), hop(6)] },
      { ...four, hops: [hop(5), hop(5)] },
    ],
    [
      { ...six, hops: [hop(5, "fd00::1"), hop(6, "fd00::2"), hop(5)] },
      { ...six, oif: 5, gateway: ip("fd00::3") },
    ],
  ]
  let family = 0
  const { socket } = new LinksKernel([], {
    answers: { [RTM_GETROUTE]: () => (lists[family++] ?? []).map(routePayload) },
  })
  const found = listRoutesOf(socket, { index: 5 as Ifindex })
  const shown = found.map(({ dst, prefix, index, gateway, nextHops }) => [
    ...[formatCidr({ ip: dst, prefix }), index, gateway && formatIp(gateway), nextHops?.length],
  ])
  expect(shown).toEqual([
    ["10.9.0.0/16", 5, undefined, undefined],
    ["10.9.0.0/16", undefined, undefined, 2],
    ["fd09::/64", 5, "fd00::1", undefined],
    ["fd09::/64", 5, undefined, undefined],
    ["fd09::/64", 5, "fd00::3", undefined],
  ])
})

test("a free table is the first from a number on that is not used", () => {
  const used = new Set([100, 102])
  expect([freeTable(used, 99), freeTable(used, 100), freeTable(used, 102)]).toEqual([99, 101, 103])
})
