import { expect, test } from "bun:test"
import type { JsonObject } from "../types/mod.ts"
import { requestedMac } from "./fields.ts"
import {
  dns,
  type Fields,
  interfaceKeys,
  interfaceName,
  linkNameOrNone,
  macAddress,
  macAddressOrNone,
  masqueradeKeys,
  mtuOrNone,
  off,
  ownDns,
  parseConfig,
  pathOrNone,
  readInterfaceKeys,
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

test("an interface may not have the hardware address of a group, or zeros", () => {
  for (const mac of ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"]) {
    expect(() => read({ runtimeConfig: { mac } })).toThrow('Cannot use "runtimeConfig.mac"')
    expect(() => read({}, "ADD", `MAC=${mac}`)).toThrow("CNI_ARGS")
    expect(read({ runtimeConfig: { mac } }, "DEL").mac).toBeUndefined()
  }
})

test("masquerading is off, and its backend open, unless the configuration says so", () => {
  expect(parseConfig(masqueradeKeys, {})).toEqual({ ipMasq: false, ipMasqBeyond: [] })
  for (const backend of ["iptables", "nftables"] as const)
    expect(parseConfig(masqueradeKeys, { ipMasqBackend: backend })).toMatchObject({ ipMasqBackend: backend })
  expect(() => parseConfig(masqueradeKeys, { ipMasqBackend: "pf" })).toThrow(
    'expected "nftables" or "iptables", found "pf"',
  )
  expect(() => parseConfig(masqueradeKeys, { ipMasqBeyond: ["10.0.0.0"] })).toThrow("a network such as 10.244.0.0/16")
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

const macs = [
  "0a:58:0a:01:02:03",
  "0A-58-0A-01-02-03",
  "0a58.0a01.0203",
  "00:00:00:00:fe:80:00:00",
  "0000.0000.fe80.0000",
  Array(20).fill("ab").join(":"),
  Array(10).fill("abcd").join("."),
]
const noMacs = [
  "0a:58:0a:01:02",
  "0a:58:0a:01:02:03:04",
  "0a-58:0a:01:02:03",
  "0a:58:0a:01:02:0g",
  "x0a:58:0a:01:02:03",
  "0a580a010203",
]
const names = ["eth0", "a", "a.b", "-", "fifteen-bytes15"]
const noNames = [".", "..", "a/b", "a:b", "a b", "a%d", "\t"]
const alternative = "a-name-of-sixteen".slice(0, 16)

test.each([
  ["an interface name", interfaceName, names, [...noNames, "", alternative]],
  [
    "a link's name or none",
    linkNameOrNone,
    [...names, "", alternative, "n".repeat(127)],
    [...noNames, "n".repeat(128), `${alternative}/`],
  ],
  ["a hardware address", macAddress, macs, [...noMacs, ""]],
  ["a hardware address or none", macAddressOrNone, [...macs, ""], noMacs],
  ["a path or none", pathOrNone, ["", "/run", "a/./b c", "é"], ["\0", "/run/\0x"]],
] as const)("%s is the same to the pattern of the schema and to what reads it", (_, field, right, wrong) => {
  const pattern = new RegExp(field.pattern, "u")
  for (const text of right)
    expect([text, pattern.test(text), field.check(text) === undefined]).toEqual([text, true, false])
  for (const text of wrong)
    expect([text, pattern.test(text), field.check(text) === undefined]).toEqual([text, false, true])
})

test("a wrong value of a shared key is told what was expected", () => {
  const all = { ...schema, name: interfaceName, parent: linkNameOrNone, hardware: macAddress, off }
  const refused = (raw: JsonObject) => {
    try {
      parseConfig(all, raw)
      return "nothing"
    } catch (error) {
      return (error as Error).message
    }
  }
  const members = Object.keys(dns.fields).map((key) => refused({ dns: { [key]: key === "domain" ? 1 : [1] } }))
  expect(members).toEqual([
    'Cannot use "dns.nameservers[0]": expected an address, found 1',
    'Cannot use "dns.domain": expected a domain name, found 1',
    'Cannot use "dns.search[0]": expected a domain name, found 1',
    'Cannot use "dns.options[0]": expected an option, found 1',
  ])
  expect([
    refused({ name: "a/b" }),
    refused({ parent: 5 }),
    refused({ hardware: "zz" }),
    refused({ hardware: 5 }),
    refused({ off: 0 }),
  ]).toEqual([
    "Cannot use \"name\": expected an interface name of 1 to 15 bytes without '/', ':' or white space, found \"a/b\"",
    'Cannot use "parent": expected an interface name, found 5',
    'Cannot use "hardware": expected a hardware address of one interface such as 0a:58:0a:01:02:03, found "zz"',
    'Cannot use "hardware": expected a hardware address, found 5',
    'Cannot use "off": expected true or false, found 0',
  ])
  expect(refused({ ipam: { type: 1 } })).toBe('Cannot use "ipam.type": expected the name of an IPAM plugin, found 1')
})

// Upstream accepts any C int as an MTU, and 0 or less means no MTU. ETH_MAX_MTU is 65535, <linux/if_ether.h>.
test("an MTU is a number of 32 bits with a sign, as far as the kernel's greatest", () => {
  const read = (mtu: number) => parseConfig({ mtu: mtuOrNone }, { mtu }).mtu
  expect([-(2 ** 31), 65535].map(read)).toEqual([-(2 ** 31), 65535])
  for (const mtu of [-(2 ** 31) - 1, 65536]) expect(() => read(mtu)).toThrow(`found ${mtu}`)
  expect(parseConfig({ mtu: mtuOrNone }, {})).toEqual({ mtu: 0 })
})

test("an MTU of 68 is the smallest that is used", () => {
  expect(
    [68, 65535].map((mtu) => readInterfaceKeys(parseConfig(schema, { mtu }), network, { verb: "ADD", args: "" }).mtu),
  ).toEqual([68, 65535])
})
