import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type CniError, type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { type PtpConfig, parsePtpConfig } from "./config.ts"

const network = { cniVersion: "1.1.0", name: "wire", type: "ptp", ipam: { type: "host-local" } }

function parse(keys: JsonObject, { verb = "ADD" as Verb, args = "" } = {}): PtpConfig {
  const raw = { ...network, ...keys }
  return parsePtpConfig(parseNetworkConfig(raw, { lenient: verb === "DEL" }), { verb, args, raw })
}

function refusal(keys: JsonObject, verb: Verb = "ADD"): CniError {
  return refusalOf(() => parse(keys, { verb }))
}

test("everything is off unless the configuration says otherwise", () => {
  expect(parse({})).toMatchObject({ ipMasq: false, mtu: undefined, mac: undefined, dns: undefined })
})

test("an MTU of 0 or less is the kernel's choice", () => {
  expect([parse({ mtu: 0 }).mtu, parse({ mtu: -1 }).mtu, parse({ mtu: 512 }).mtu]).toEqual([undefined, undefined, 512])
})

test("the masquerade's backend is the kernel's choice unless the configuration names one", () => {
  expect(parse({}).ipMasqBackend).toBeUndefined()
  expect(parse({ ipMasqBackend: "iptables" }).ipMasqBackend).toBe("iptables")
})

test("keys match in any case", () => {
  expect(parse({ IPMASQ: true, Mtu: 1400 })).toMatchObject({ ipMasq: true, mtu: 1400 })
})

test("an IPAM plugin is needed, except to clean up", () => {
  for (const verb of ["ADD", "CHECK", "STATUS"] as const) {
    expect(refusal({ ipam: {} }, verb)).toMatchObject({ code: 7, message: expect.stringContaining('"ipam.type"') })
  }
  for (const verb of ["DEL", "GC"] as const) expect(parse({ ipam: {} }, { verb })).toMatchObject({ ipMasq: false })
})

test("any DNS member replaces the IPAM plugin's, an empty list too, an empty domain not", () => {
  expect(parse({ dns: { domain: "a.example" } }).dns).toEqual({ domain: "a.example" })
  expect(parse({ dns: { nameservers: [] } }).dns).toEqual({})
  expect(parse({ dns: { domain: "" } }).dns).toBeUndefined()
  expect(parse({ dns: {} }).dns).toBeUndefined()
})

test("a MAC may come by CNI_ARGS, whose other keys are not ours", () => {
  expect(parse({}, { args: "FOO=bar;MAC=0a:00:00:00:00:03" }).mac).toBe("0a:00:00:00:00:03")
  expect(() => parse({}, { args: "MAC=zz" })).toThrow("CNI_ARGS")
})

test("wrong values are code 7 with the key", () => {
  expect(refusal({ mtu: "wide" }).message).toContain('"mtu"')
  expect(refusal({ ipMasq: 1 }).message).toContain('"ipMasq"')
  expect(refusal({ ipMasqBackend: "pf" }).message).toContain('"nftables" or "iptables"')
  expect(refusal({ runtimeConfig: { mac: "zz" } })).toMatchObject({ code: 7 })
})

test("DEL reads the same configuration without complaint", () => {
  const broken = { mtu: "wide", ipMasq: "yes", ipMasqBackend: 3, dns: 1, ipam: "none", runtimeConfig: { mac: 5 } }
  expect(parse(broken, { verb: "DEL", args: "nonsense" })).toMatchObject({ ipMasq: false, mac: undefined })
})
