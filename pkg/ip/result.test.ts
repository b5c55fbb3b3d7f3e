import { expect, test } from "bun:test"
import type { Ifindex, RouteSpec } from "../netlink/mod.ts"
import { formatCidr, formatIp, type Result } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { addressesOf, gatewayOf, planRoutes } from "./result.ts"

const link = { index: 7 as Ifindex }
const ips = [
  { address: "10.1.0.5/24", gateway: "10.1.0.1" },
  { address: "fd00::5/64", gateway: "fd00::1" },
]

function plan(routes: Result["routes"], addresses: Result["ips"] = ips): RouteSpec[] {
  return planRoutes({ ips: addresses, routes }, link)
}

function show(spec: RouteSpec): string {
  const via = (gateway: Uint8Array | undefined) => (gateway ? ` via ${formatIp(gateway)}` : " direct")
  const ways = spec.nextHops ? spec.nextHops.map(({ gateway }) => via(gateway)).join(",") : via(spec.gateway)
  return formatCidr({ ip: spec.dst, prefix: spec.prefix }) + ways
}

test("a route without a gateway uses the first one of its family", () => {
  expect(plan([{ dst: "0.0.0.0/0" }, { dst: "::/0" }]).map(show)).toEqual([
    "0.0.0.0/0 via 10.1.0.1",
    "::/0 via fd00::1",
  ])
})

test("without any gateway it is a route on the link", () => {
  expect(plan([{ dst: "10.9.0.0/16" }], [{ address: "10.1.0.5/24" }]).map(show)).toEqual(["10.9.0.0/16 direct"])
})

test("scope link, or the unspecified address as gateway, means no gateway", () => {
  expect(plan([{ dst: "10.9.0.0/16", scope: 253 }]).map(show)).toEqual(["10.9.0.0/16 direct"])
  expect(plan([{ dst: "10.9.0.0/16", gw: "0.0.0.0" }]).map(show)).toEqual(["10.9.0.0/16 direct"])
})

test("the unspecified address as gateway means scope link, unless another is said", () => {
  expect(plan([{ dst: "10.9.0.1/32", gw: "0.0.0.0" }])[0]).toMatchObject({ scope: 253 })
  expect(plan([{ dst: "10.9.0.1/32", gw: "0.0.0.0", scope: 0 }])[0]).toMatchObject({ scope: 0 })
  expect(plan([{ dst: "10.9.0.1/32" }])[0]?.scope).toBeUndefined()
})

test("host bits of a destination are dropped, as the kernel requires", () => {
  expect(plan([{ dst: "10.9.8.7/16" }]).map(show)).toEqual(["10.9.0.0/16 via 10.1.0.1"])
})

test("several gateways for one destination are one multipath route", () => {
  const specs = plan([
    { dst: "10.9.0.0/16", gw: "10.1.0.2" },
    { dst: "10.9.0.0/16", gw: "10.1.0.3" },
  ])
  expect(specs.map(show)).toEqual(["10.9.0.0/16 via 10.1.0.2, via 10.1.0.3"])
  expect(specs[0]?.nextHops?.map(({ index }) => index)).toEqual([link.index, link.index])
})

test("the same route twice is one; another priority or table makes it another", () => {
  const same = { dst: "0.0.0.0/0", gw: "10.1.0.1" }
  expect(plan([same, { dst: "0.0.0.0/0" }])).toHaveLength(1)
  expect(plan([same, { ...same, priority: 5 }, { ...same, table: 5000 }])).toHaveLength(3)
})

test("mtu, advmss, priority, table and scope reach the kernel; zeros that mean the default do not", () => {
  expect(plan([{ dst: "10.9.0.0/16", mtu: 1400, advmss: 1360, priority: 9, table: 5000, scope: 0 }])[0]).toMatchObject({
    mtu: 1400,
    advmss: 1360,
    priority: 9,
    table: 5000,
    scope: 0,
  })
  const plain = plan([{ dst: "10.9.0.0/16", mtu: 0, advmss: 0, priority: 0 }])[0]
  expect(plain?.mtu).toBeUndefined()
  expect(plain?.advmss).toBeUndefined()
  expect(plain?.priority).toBeUndefined()
})

test("addresses are bytes with their gateways, where they have one", () => {
  expect(addressesOf({ ips: [...ips, { address: "10.2.0.5/16" }] })).toEqual([
    { ip: Uint8Array.of(10, 1, 0, 5), prefix: 24, gateway: Uint8Array.of(10, 1, 0, 1) },
    {
      ip: Uint8Array.of(0xfd, ...Array<number>(14).fill(0), 5),
      prefix: 64,
      gateway: Uint8Array.of(0xfd, ...Array<number>(14).fill(0), 1),
    },
    { ip: Uint8Array.of(10, 2, 0, 5), prefix: 16 },
  ])
})

test.each<[string, () => unknown]>([
  ["10.1.0.5", () => addressesOf({ ips: [{ address: "10.1.0.5" }] })],
  ["gateway", () => addressesOf({ ips: [{ address: "10.1.0.5/24", gateway: "gateway" }] })],
  ["10.9.0.0", () => plan([{ dst: "10.9.0.0" }])],
  ["10.1.0.5/24", () => gatewayOf("10.1.0.5/24")],
])('"%s" of a result is not an address, and refused', (text, read) => {
  expect(refusalOf(read)).toMatchObject({
    code: 6,
    message: `Cannot use "${text}" of the result: it is not an address`,
  })
})

test("the unspecified address, of either family, is not a gateway", () => {
  expect([gatewayOf(undefined), gatewayOf("0.0.0.0"), gatewayOf("::")]).toEqual([undefined, undefined, undefined])
  expect(gatewayOf("0.0.0.1")).toEqual(Uint8Array.of(0, 0, 0, 1))
})

test("a destination is on the link from scope link on, and not below", () => {
  for (const scope of [253, 254, 255])
    expect(plan([{ dst: "10.9.0.0/16", scope }]).map(show)).toEqual(["10.9.0.0/16 direct"])
  for (const scope of [0, 200, 252])
    expect(plan([{ dst: "10.9.0.0/16", scope }]).map(show)).toEqual(["10.9.0.0/16 via 10.1.0.1"])
})
