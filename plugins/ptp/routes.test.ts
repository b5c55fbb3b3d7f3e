import { expect, test } from "bun:test"
import { type Ifindex, RouteScope, type RouteSpec } from "../../pkg/netlink/mod.ts"
import { formatCidr, formatIp, type Result } from "../../pkg/types/mod.ts"
import { hostAddresses, hostRoutes, planContainerRoutes } from "./routes.ts"

const link = { index: 7 as Ifindex }

function plan(ips: Result["ips"], routes: Result["routes"] = []) {
  const { first, networks, last } = planContainerRoutes({ ips, routes }, link)
  return { first: first.map(show), networks: networks.map(formatCidr), last: last.map(show) }
}

/** Formats a route like `ip route`. */
function show({ dst, prefix, gateway, scope, preferredSource }: RouteSpec): string {
  return [
    formatCidr({ ip: dst, prefix }),
    gateway && `via ${formatIp(gateway)}`,
    scope === RouteScope.Link && "scope link",
    scope === RouteScope.Host && "scope host",
    preferredSource && `src ${formatIp(preferredSource)}`,
  ]
    .filter(Boolean)
    .join(" ")
}

const one = { address: "10.9.0.5/24", gateway: "10.9.0.1" }

test("the gateway is on the link, and the network behind it", () => {
  expect(plan([one, { address: "fd00::5/64", gateway: "fd00::1" }])).toEqual({
    first: ["10.9.0.1/32 scope link src 10.9.0.5", "fd00::1/128 scope link src fd00::5"],
    networks: ["10.9.0.0/24", "fd00::/64"],
    last: ["10.9.0.0/24 via 10.9.0.1 src 10.9.0.5", "fd00::/64 via fd00::1 src fd00::5"],
  })
})

test("what addresses share comes once, with the first of them as source", () => {
  const { first, last } = plan([one, { ...one, address: "10.9.0.6/24" }, { ...one, address: "10.8.0.5/16" }])
  expect(first).toEqual(["10.9.0.1/32 scope link src 10.9.0.5"])
  expect(last).toEqual(["10.9.0.0/24 via 10.9.0.1 src 10.9.0.5", "10.8.0.0/16 via 10.9.0.1 src 10.8.0.5"])
})

test("an address alone has no network; the route that the kernel makes for it goes", () => {
  expect(plan([{ ...one, address: "10.9.0.5/32" }])).toEqual({
    first: ["10.9.0.1/32 scope link src 10.9.0.5"],
    networks: ["10.9.0.5/32"],
    last: [],
  })
})

test("the result's routes come after the gateways, and before the networks are taken off the link", () => {
  const { first } = plan([one], [{ dst: "0.0.0.0/0" }, { dst: "192.0.2.0/24", gw: "10.9.0.77" }])
  expect(first.slice(1)).toEqual(["0.0.0.0/0 via 10.9.0.1", "192.0.2.0/24 via 10.9.0.77"])
})

test("a route of the result to the network replaces ours, one to the gateway is ours", () => {
  const { first, last } = plan([one], [{ dst: "10.9.0.0/24", gw: "10.9.0.1" }, { dst: "10.9.0.1/32" }])
  expect(first).toEqual(["10.9.0.1/32 scope link src 10.9.0.5"])
  expect(last).toEqual(["10.9.0.0/24 via 10.9.0.1"])
})

test("routes of other tables and priorities do not compete with ours", () => {
  const { first, last } = plan(
    [one],
    [
      { dst: "10.9.0.0/24", table: 100 },
      { dst: "10.9.0.0/24", priority: 9 },
    ],
  )
  expect(first).toHaveLength(3)
  expect(last).toEqual(["10.9.0.0/24 via 10.9.0.1 src 10.9.0.5"])
})

test("the host has each gateway as an address of its own, and a route to each address", () => {
  const ips = [one, { ...one, address: "10.9.0.6/24" }, { address: "fd00::5/64", gateway: "fe80::1" }]
  expect(hostAddresses({ ips }).map(formatCidr)).toEqual(["10.9.0.1/32", "fe80::1/128"])
  expect(hostRoutes({ ips }, link).map(show)).toEqual([
    "10.9.0.5/32 scope host",
    "10.9.0.6/32 scope host",
    "fd00::5/128 scope host",
  ])
})
