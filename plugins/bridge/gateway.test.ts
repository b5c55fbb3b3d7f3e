import { expect, test } from "bun:test"
import { formatCidr, type Result } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"
import { completeResult, gatewaysOf } from "./gateway.ts"

function config(keys: object): BridgeConfig {
  const raw = { cniVersion: "1.1.0", name: "lab", type: "bridge", ...keys }
  return parseBridgeConfig({ ...raw }, { verb: "ADD", args: "", raw })
}

function leased(...ips: Result["ips"]): Result {
  return { interfaces: [], ips, routes: [], dns: { nameservers: ["192.0.2.53"] } }
}

test("addresses belong to the container's interface, the third of the result", () => {
  const { ips } = completeResult(leased({ address: "10.1.0.5/24" }), config({}))
  expect(ips).toEqual([{ address: "10.1.0.5/24", interface: 2 }])
})

test("a gateway bridge takes the first address of the network when the IPAM plugin named none", () => {
  const both = leased({ address: "10.1.0.5/24" }, { address: "fd00::5/64", gateway: "fd00::99" })
  const result = completeResult(both, config({ isGateway: true }))
  expect(result.ips.map(({ gateway }) => gateway)).toEqual(["10.1.0.1", "fd00::99"])
  expect(gatewaysOf(result).map(formatCidr)).toEqual(["10.1.0.1/24", "fd00::99/64"])
})

test.each(["10.9.0.5/32", "10.9.0.5/31", "fd00::5/128", "fd00::5/127"])(
  "a network without room for a gateway, such as %s, is refused with a way out",
  (address) => {
    const refusal = refusalOf(() => completeResult(leased({ address }), config({ isGateway: true })))
    expect(refusal).toMatchObject({
      code: 7,
      message: `Cannot choose a gateway for ${address}: the network has no free address`,
      details: expect.stringContaining('set a "gateway"'),
    })
    const given = { address, gateway: "10.9.0.4" }
    expect(completeResult(leased(given), config({ isGateway: true })).ips).toEqual([{ ...given, interface: 2 }])
  },
)

test.each([
  ["10.9.0.6/30", "10.9.0.5"],
  ["10.9.0.7/29", "10.9.0.1"],
  ["fd00::7/126", "fd00::5"],
])("the smallest network with room is a /30, or a /126: %s has %s", (address, gateway) => {
  expect(completeResult(leased({ address }), config({ isGateway: true })).ips[0]?.gateway).toBe(gateway)
})

test("a gateway of several addresses is the bridge's once for each prefix length", () => {
  const ips = [
    { address: "10.1.0.5/24", gateway: "10.1.0.1" },
    { address: "10.1.0.6/24", gateway: "10.1.0.1" },
    { address: "10.1.0.7/16", gateway: "10.1.0.1" },
    { address: "10.1.0.8/24" },
    { address: "fd00::5/64", gateway: "fd00::1" },
    { address: "fd00::6/64", gateway: "fd00:0::1" },
  ]
  expect(gatewaysOf({ ips }).map(formatCidr)).toEqual(["10.1.0.1/24", "10.1.0.1/16", "fd00::1/64"])
})

test("a default gateway bridge adds one default route a family, unless there is one", () => {
  const both = leased({ address: "10.1.0.5/24" }, { address: "10.2.0.5/24" }, { address: "fd00::5/64" })
  expect(completeResult(both, config({ isDefaultGateway: true })).routes).toEqual([
    { dst: "0.0.0.0/0", gw: "10.1.0.1" },
    { dst: "::/0", gw: "fd00::1" },
  ])
  const routed = { ...leased({ address: "10.1.0.5/24" }), routes: [{ dst: "0.0.0.0/0" }] }
  expect(completeResult(routed, config({ isDefaultGateway: true })).routes).toEqual([{ dst: "0.0.0.0/0" }])
})

test("a default route in another table is not the default route", () => {
  const routed = { ...leased({ address: "10.1.0.5/24" }), routes: [{ dst: "0.0.0.0/0", table: 100 }] }
  expect(completeResult(routed, config({ isDefaultGateway: true })).routes).toHaveLength(2)
})

test("DNS of the configuration replaces the IPAM plugin's when any member is there", () => {
  expect(completeResult(leased(), config({})).dns).toEqual({ nameservers: ["192.0.2.53"] })
  expect(completeResult(leased(), config({ dns: { domain: "lab.example" } })).dns).toEqual({ domain: "lab.example" })
  expect(completeResult(leased(), config({ dns: { nameservers: [] } })).dns).toEqual({ nameservers: [] })
})
