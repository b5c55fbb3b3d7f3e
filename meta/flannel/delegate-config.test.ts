import { expect, test } from "bun:test"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { parseFlannelConfig } from "./config.ts"
import { delegateConfig, encodeConfig, requiredParts, subnetsOf, tryDecodeConfig } from "./delegate-config.ts"

const node = { networks: ["10.9.0.0/16"], subnets: ["10.9.3.0/24"], mtu: 1410, ipMasq: true }

function configOf(raw: JsonObject, verb: "ADD" | "DEL" = "ADD") {
  const { ipam, runtimeConfig } = raw as Record<string, JsonObject>
  const network = { cniVersion: "0.1.0", name: "podnet", type: "flannel" }
  return parseFlannelConfig(
    { ...network, ...(ipam && { ipam }), ...(runtimeConfig && { runtimeConfig }) },
    { args: "", verb, raw },
  )
}

const text = (config: JsonObject) => new TextDecoder().decode(encodeConfig(config))

// The reference plugin's file for this network and this node, v1.9.1-flannel1.
test("the delegate's configuration is that of the reference plugin, byte for byte", () => {
  expect(text(delegateConfig(configOf({ cniVersion: "1.0.0" }), node))).toBe(
    '{"cniVersion":"1.0.0","ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.9.3.0/24"}]],"routes":[{"dst":"10.9.0.0/16"}],' +
      '"type":"host-local"},"isGateway":true,"mtu":1410,"name":"podnet","type":"bridge"}',
  )
})

test("what is given wins, in any case of its keys; only a bridge is a gateway", () => {
  const delegate = { Type: "ptp", IPMasq: true, MTU: 1300, x: [{ b: 1, a: 2 }] }
  const ipam = { type: "dhcp", routes: [{ dst: "192.0.2.0/24" }], ranges: "replaced", rangeStart: "10.1.1.1", keep: 1 }
  const config = delegateConfig(configOf({ delegate, ipam, runtimeConfig: { mac: "x" } }), node)
  expect(config).toEqual({
    name: "podnet",
    type: "ptp",
    ipMasq: true,
    mtu: 1300,
    x: [{ b: 1, a: 2 }],
    runtimeConfig: { mac: "x" },
    ipam: {
      type: "dhcp",
      keep: 1,
      ranges: [[{ subnet: "10.9.3.0/24" }]],
      routes: [{ dst: "192.0.2.0/24" }, { dst: "10.9.0.0/16" }],
    },
  })
  expect(text(config)).toContain('"x":[{"a":2,"b":1}]')
})

test("a range of the former kind would clash with the subnet of the node, in any case of its letters", () => {
  const ipam = { RangeStart: "a", RANGEEND: "b", Subnet: "c", gateWay: "d", Ranges: [], dataDir: "/e" }
  expect(delegateConfig(configOf({ ipam }), node).ipam).toEqual({
    type: "host-local",
    dataDir: "/e",
    routes: [{ dst: "10.9.0.0/16" }],
    ranges: [[{ subnet: "10.9.3.0/24" }]],
  })
})

test("the subnets of a kept configuration, and none of one that is not of this shape", () => {
  expect(subnetsOf(delegateConfig(configOf({}), { ...node, subnets: ["10.9.3.0/24", "fd00::/64"] }))).toEqual([
    "10.9.3.0/24",
    "fd00::/64",
  ])
  for (const kept of [{}, { ipam: 1 }, { ipam: { ranges: 1 } }, { ipam: { ranges: [1, [null, { subnet: 7 }]] } }]) {
    expect(subnetsOf(kept as JsonObject)).toEqual([])
  }
  expect(tryDecodeConfig(new TextEncoder().encode("{"))).toBeUndefined()
})

test("for DEL what is wrong counts as absent, and what a delegate needs to clean up is left", () => {
  expect(requiredParts(configOf({ delegate: 7, subnetFile: 7 }, "DEL"))).toEqual({
    name: "podnet",
    type: "bridge",
    ipam: { type: "host-local" },
  })
  expect(configOf({ subnetFile: "" }).subnetFile).toBe("/run/flannel/subnet.env")
})
