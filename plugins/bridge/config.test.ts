import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { CniError, type JsonObject } from "../../pkg/types/mod.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"

function parse(keys: JsonObject, { verb = "ADD" as Verb, args = "" } = {}): BridgeConfig {
  const network = { cniVersion: "1.1.0", name: "lab", type: "bridge" }
  return parseBridgeConfig(network, { verb, args, raw: { ...network, ...keys } })
}

function refusal(keys: JsonObject, args = ""): CniError {
  try {
    parse(keys, { args })
  } catch (error) {
    if (error instanceof CniError) return error
  }
  throw new Error("it was accepted")
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

test("a capitalised runtimeConfig, as containerd sends it, is understood", () => {
  expect(parse({ RuntimeConfig: { Mac: "0a:00:00:00:00:01" } }).mac).toBe("0a:00:00:00:00:01")
})

test("hairpin and promiscuous mode together are refused", () => {
  expect(refusal({ hairpinMode: true, promiscMode: true }).code).toBe(7)
})

test("wrong values are code 7 with the key, bad CNI_ARGS code 4 with the pair", () => {
  expect(refusal({ bridge: "a/b" }).message).toContain('"bridge"')
  expect(refusal({ bridge: "" }).code).toBe(7)
  expect(refusal({ isGateway: 1 }).message).toContain('"isGateway"')
  expect(refusal({ runtimeConfig: { mac: "zz" } }).message).toContain('"runtimeConfig.mac"')
  expect(refusal({}, "mac=zz").code).toBe(4)
})

test("DEL reads the same configuration without complaint", () => {
  const broken = { bridge: "a/b", isGateway: "yes", hairpinMode: true, promiscMode: true, runtimeConfig: { mac: 5 } }
  expect(parse(broken, { verb: "DEL", args: "nonsense" })).toMatchObject({ bridge: "cni0", isGateway: false })
})
