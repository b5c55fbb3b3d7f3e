import { expect, test } from "bun:test"
import type { Result } from "../../pkg/types/mod.ts"
import { completeResult } from "./result.ts"

function complete(...ips: Result["ips"]): Result {
  return completeResult({ interfaces: [], ips, routes: [], dns: { domain: "ipam.example" } }, { dns: undefined })
}

function gateways(...ips: Result["ips"]): (string | undefined)[] {
  return complete(...ips).ips.map(({ gateway }) => gateway)
}

test("addresses belong to the container's interface, the second of the result", () => {
  expect(complete({ address: "10.9.0.5/24", gateway: "10.9.0.1" }).ips).toEqual([
    { address: "10.9.0.5/24", gateway: "10.9.0.1", interface: 1 },
  ])
})

test("without a gateway it is the first address of the network", () => {
  expect(
    gateways({ address: "10.9.0.5/24" }, { address: "fd00::5/64", gateway: "::" }, { address: "10.8.0.2/30" }),
  ).toEqual(["10.9.0.1", "fd00::1", "10.8.0.1"])
})

test("where the network has no room for it, it is a link-local one", () => {
  expect(gateways({ address: "10.9.0.5/32" }, { address: "10.9.0.6/31" }, { address: "fd00::5/127" })).toEqual([
    "169.254.1.1",
    "169.254.1.1",
    "fe80::1",
  ])
})

test("it is never one of the container's own addresses", () => {
  expect(gateways({ address: "10.9.0.5/24" }, { address: "10.9.0.1/24" })).toEqual(["169.254.1.1", "169.254.1.1"])
  const own = () => complete({ address: "10.9.0.5/24" }, { address: "10.9.0.6/24", gateway: "10.9.0.5" })
  expect(own).toThrow("Cannot use gateway 10.9.0.5 for 10.9.0.6/24: it is the container's own address")
})

test("a gateway of the other family is refused", () => {
  expect(() => complete({ address: "10.9.0.5/24", gateway: "fe80::1" })).toThrow("of the other address family")
})

test("DNS of the configuration replaces the IPAM plugin's, with nothing too", () => {
  const leased = { interfaces: [], ips: [], routes: [], dns: { domain: "ipam.example" } }
  expect(completeResult(leased, { dns: undefined }).dns).toEqual({ domain: "ipam.example" })
  expect(completeResult(leased, { dns: {} }).dns).toEqual({})
})
