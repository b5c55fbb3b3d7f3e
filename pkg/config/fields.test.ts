import { expect, test } from "bun:test"
import type { JsonObject } from "../types/mod.ts"
import {
  type Fields,
  interfaceKeys,
  masqueradeKeys,
  ownDns,
  parseConfig,
  readInterfaceKeys,
  requestedMac,
} from "./mod.ts"

const schema = { ...interfaceKeys, ...masqueradeKeys } as const satisfies Fields
const network = { cniVersion: "1.1.0", name: "lab", type: "x", dns: { domain: "a.example" } }
const read = (raw: JsonObject, verb = "ADD", args = "") =>
  readInterfaceKeys(parseConfig(schema, raw, verb === "DEL"), network, { verb, args })

test("the keys that interface plugins share, all of them and none", () => {
  const raw = {
    mtu: 1400,
    dns: network.dns,
    ipam: { type: "static" },
    args: { cni: { mac: "0A:00:00:00:00:02" } },
  }
  const { mtu, mac, dns, ipam } = read(raw)
  expect({ mtu, mac, dns, ipam }).toEqual({ mtu: 1400, mac: "0a:00:00:00:00:02", dns: network.dns, ipam: "static" })
  expect(read({ ipam: { type: "" } })).toEqual({ mtu: undefined, mac: undefined, dns: undefined, ipam: undefined })
})

test("an MTU that the kernel refuses and CNI_ARGS that cannot be read are errors, and for a cleanup nothing", () => {
  expect(() => read({ mtu: 67 })).toThrow('Cannot use "mtu": expected 0, or a number from 68 to 65535, found 67')
  expect(() => read({}, "STATUS", "MAC=zz")).toThrow("CNI_ARGS")
  expect(read({ mtu: 67 }, "DEL", "MAC=zz")).toMatchObject({ mtu: undefined, mac: undefined })
  expect(read({}, "GC", "MAC=zz")).toMatchObject({ mac: undefined })
  for (const mtu of [0, -1]) expect(read({ mtu }).mtu).toBeUndefined()
})

test("masquerading is off, and its backend open, unless the configuration says so", () => {
  expect(parseConfig(masqueradeKeys, {})).toEqual({ ipMasq: false })
  expect(parseConfig(masqueradeKeys, { ipMasq: true, ipMasqBackend: "iptables" }).ipMasqBackend).toBe("iptables")
  expect(() => parseConfig(masqueradeKeys, { ipMasqBackend: "pf" })).toThrow(
    'expected "nftables" or "iptables", found "pf"',
  )
})

test("without any member DNS is the IPAM plugin's business", () => {
  expect(ownDns()).toBeUndefined()
  expect(ownDns({}, {})).toBeUndefined()
  expect(ownDns({ nameservers: undefined, domain: "" })).toBeUndefined()
})

test("any member replaces the IPAM plugin's, and an empty list takes it away", () => {
  expect(ownDns({ domain: "a.example" }, { domain: "a.example" })).toEqual({ domain: "a.example" })
  for (const list of ["nameservers", "search", "options"]) expect(ownDns({ [list]: [] }, {})).toEqual({})
})

const runtimeConfig = { mac: "0A:00:00:00:00:01" }
const args = { cni: { mac: "0a-00-00-00-00-02" } }
const cniArgs = "IgnoreUnknown=1;MAC=0a:00:00:00:00:03;K8S_POD_NAME=a"

test("runtimeConfig goes before args.cni, that before CNI_ARGS, and a key at the top comes last", () => {
  expect(requestedMac({ runtimeConfig, args }, cniArgs)).toBe("0a:00:00:00:00:01")
  expect(requestedMac({ args }, cniArgs)).toBe("0a:00:00:00:00:02")
  expect(requestedMac({ runtimeConfig: {} }, cniArgs)).toBe("0a:00:00:00:00:03")
  expect(requestedMac({ mac: "0A:00:00:00:00:04" }, cniArgs)).toBe("0a:00:00:00:00:03")
  expect(requestedMac({ mac: "0A:00:00:00:00:04" }, "")).toBe("0a:00:00:00:00:04")
  expect(requestedMac({}, "")).toBeUndefined()
})

test("CNI_ARGS that cannot be read are an error, and for a cleanup nothing", () => {
  expect(() => requestedMac({}, "MAC=zz")).toThrow("CNI_ARGS")
  expect(requestedMac({}, "MAC=zz", true)).toBeUndefined()
  expect(requestedMac({ runtimeConfig }, "=;", true)).toBe("0a:00:00:00:00:01")
})
