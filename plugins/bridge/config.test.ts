import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type CniError, type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"

function parse(keys: JsonObject, { verb = "ADD" as Verb, args = "" } = {}): BridgeConfig {
  const raw = { cniVersion: "1.1.0", name: "lab", type: "bridge", ...keys }
  return parseBridgeConfig(parseNetworkConfig(raw, { lenient: verb === "DEL" }), { verb, args, raw })
}

function refusal(keys: JsonObject, args = ""): CniError {
  return refusalOf(() => parse(keys, { args }))
}

test("the bridge is cni0 and everything else is off unless the configuration says otherwise", () => {
  expect(parse({})).toMatchObject({ bridge: "cni0", isGateway: false, ipMasq: false, hairpinMode: false })
  expect(parse({}).ipam).toBeUndefined()
})

test("a default gateway is a gateway", () => {
  expect(parse({ isDefaultGateway: true }).isGateway).toBe(true)
})

test("an MTU of 0 or less is the kernel's choice", () => {
  expect(parse({ mtu: 0 }).mtu).toBeUndefined()
  expect(parse({ mtu: -1 }).mtu).toBeUndefined()
  expect(parse({ mtu: 1400 }).mtu).toBe(1400)
})

test("the MAC comes from runtimeConfig, else from args.cni, else from CNI_ARGS", () => {
  const all = { runtimeConfig: { mac: "0A:00:00:00:00:01" }, args: { cni: { mac: "0a:00:00:00:00:02" } } }
  const args = "MAC=0a:00:00:00:00:03"
  expect(parse(all, { args }).mac).toBe("0a:00:00:00:00:01")
  expect(parse({ args: all.args }, { args }).mac).toBe("0a:00:00:00:00:02")
  expect(parse({}, { args }).mac).toBe("0a:00:00:00:00:03")
})

test("#48 a capitalised runtimeConfig, as containerd sends it, is understood", () => {
  expect(parse({ RuntimeConfig: { Mac: "0a:00:00:00:00:01" } }).mac).toBe("0a:00:00:00:00:01")
})

test("hairpin and promiscuous mode together are refused", () => {
  expect(refusal({ hairpinMode: true, promiscMode: true }).code).toBe(7)
})

test("any DNS member replaces the IPAM plugin's, an empty list too, an empty domain not", () => {
  expect(parse({ dns: { domain: "a.example" } }).dns).toEqual({ domain: "a.example" })
  expect(parse({ dns: { nameservers: [] } }).dns).toEqual({})
  expect(parse({ dns: { domain: "" } }).dns).toBeUndefined()
  expect(parse({ dns: {} }).dns).toBeUndefined()
})

test("IPAM and a container's interface that stays down do not go together, in upstream's words", () => {
  const ipam = { type: "host-local" }
  const error = refusal({ disableContainerInterface: true, ipam })
  expect(error).toMatchObject({ code: 7, message: "cannot use IPAM when DisableContainerInterface flag is set" })
  expect(parse({ disableContainerInterface: true }).disableContainerInterface).toBe(true)
  expect(parse({ disableContainerInterface: true, ipam }, { verb: "DEL" }).disableContainerInterface).toBe(true)
})

test("the gateway addresses are on an interface of the VLAN, when there is a VLAN and addresses", () => {
  const ipam = { type: "host-local" }
  expect(parse({ vlan: 100, isGateway: true, ipam }).vlanGateway).toBe("cni0.100")
  expect(parse({ vlan: 100, isDefaultGateway: true, ipam }).vlanGateway).toBe("cni0.100")
  expect(parse({ vlan: 100, isGateway: true }).vlanGateway).toBeUndefined()
  expect(parse({ vlan: 100, ipam }).vlanGateway).toBeUndefined()
  expect(parse({ vlanTrunk: [{ id: 100 }], isGateway: true, ipam }).vlanGateway).toBeUndefined()
})

test("a name that is too long for that interface is an error of the configuration", () => {
  const keys = { bridge: "br-of-12-byte", vlan: 10, isGateway: true, ipam: { type: "host-local" } }
  const error = refusal(keys)
  expect(error).toMatchObject({ code: 7, details: expect.stringContaining('"br-of-12-byte.10" has 16 bytes') })
  expect(error.message).toContain("Cannot use VLAN 10 with a gateway")
  expect(parse({ ...keys, vlan: 9 }).vlanGateway).toBe("br-of-12-byte.9")
})

test("VLANs are checked for every verb but those that clean up", () => {
  expect(refusal({ vlan: 5000 }).message).toBe("invalid VLAN ID 5000 (must be between 0 and 4094)")
  expect(refusal({ vlanTrunk: [{ id: 5000 }] }).message).toBe("incorrect trunk id parameter")
  expect(refusal({ vlan: "100" }).message).toContain('Cannot use "vlan": expected a VLAN ID')
  expect(refusal({ vlanTrunk: [{ minId: 1.5 }] }).message).toContain('"vlanTrunk[0].minID"')
  expect(() => parse({ vlan: 5000 }, { verb: "CHECK" })).toThrow("invalid VLAN ID")
  expect(parse({ vlan: 5000, vlanTrunk: [{ id: 5000 }] }, { verb: "GC" }).vlans).toMatchObject({ native: 0 })
})

test("a trunk may have null entries, and null means no trunk", () => {
  expect(parse({ vlanTrunk: [null, { id: 5 }] }).vlans.trunk).toEqual([{ first: 5, last: 5 }])
  expect(parse({ vlanTrunk: null }).vlans.trunk).toBeUndefined()
  expect(parse({ vlanTrunk: [] }).vlans.trunk).toEqual([])
})

test("wrong values are code 7 with the key, bad CNI_ARGS code 4 with the pair", () => {
  expect(refusal({ bridge: "a/b" }).message).toContain('"bridge"')
  expect(refusal({ bridge: "" }).code).toBe(7)
  expect(refusal({ isGateway: 1 }).message).toContain('"isGateway"')
  expect(refusal({ runtimeConfig: { mac: "zz" } }).message).toContain('"runtimeConfig.mac"')
  expect(refusal({}, "mac=zz").code).toBe(4)
})

test("DEL reads the same configuration without complaint", () => {
  const broken = {
    bridge: "a/b",
    isGateway: "yes",
    hairpinMode: true,
    promiscMode: true,
    runtimeConfig: { mac: 5 },
    vlan: "x",
  }
  expect(parse(broken, { verb: "DEL", args: "nonsense" })).toMatchObject({ bridge: "cni0", isGateway: false })
})
