import { expect, test } from "bun:test"
import fc from "fast-check"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { CniError, JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { duplicateKey, parseTuningConfig, refuseDuplicateSysctls, type TuningConfig } from "./config.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "tuning" }

function parse(keys: JsonObject, { verb = "ADD" as Verb, args = "" } = {}): TuningConfig {
  return parseTuningConfig(network, { verb, args, raw: { ...network, ...keys } })
}

function refusal(keys: JsonObject, args = ""): CniError {
  return refusalOf(() => parse(keys, { args }))
}

test("nothing is changed unless the configuration says so, and backups go where upstream has them", () => {
  const { sysctls, link, dataDir } = parse({})
  expect({ sysctls, dataDir }).toEqual({ sysctls: [], dataDir: "/run/cni/tuning" })
  expect(Object.values(link)).toEqual([undefined, undefined, undefined, undefined, undefined])
})

test("zero, empty and off mean what they mean to upstream", () => {
  const { link, dataDir } = parse({ mtu: 0, mac: "", promisc: false, allmulti: false, txQLen: 0, dataDir: "" })
  expect(link).toEqual({ mac: undefined, promisc: undefined, mtu: undefined, allmulti: false, txQLen: 0 })
  expect(dataDir).toBe("/run/cni/tuning")
})

test("a MAC in any spelling is the one that the kernel prints", () => {
  expect(parse({ mac: "0A-58-0A-01-02-03" }).link.mac).toBe("0a:58:0a:01:02:03")
  expect(parse({ mac: "0A58.0A01.0203" }).link.mac).toBe("0a:58:0a:01:02:03")
})

test("args.cni wins over runtimeConfig, that over CNI_ARGS, and that over the top", () => {
  const top = { mac: "0a:00:00:00:00:01" }
  const args = "IgnoreUnknown=1;MAC=0a:00:00:00:00:02;K8S_POD_NAME=x"
  const runtimeConfig = { Mac: "0a:00:00:00:00:03" }
  const cni = { mac: "0a:00:00:00:00:04" }
  expect(parse(top).link.mac).toBe("0a:00:00:00:00:01")
  expect(parse(top, { args }).link.mac).toBe("0a:00:00:00:00:02")
  expect(parse({ ...top, RuntimeConfig: runtimeConfig }, { args }).link.mac).toBe("0a:00:00:00:00:03")
  expect(parse({ ...top, runtimeConfig, args: { cni } }, { args }).link.mac).toBe("0a:00:00:00:00:04")
  expect(parse({ ...top, runtimeConfig: { mac: "" } }, { args: "MAC=" }).link.mac).toBe("0a:00:00:00:00:01")
})

test("args.cni wins over the top for every setting, and switches off as well", () => {
  const top = { mtu: 1400, promisc: true, allmulti: true, txQLen: 5 }
  const cni = { mtu: 0, promisc: false, allmulti: false, txQLen: 0 }
  expect(parse({ ...top, args: { cni } }).link).toEqual({
    mac: undefined,
    promisc: undefined,
    mtu: undefined,
    allmulti: false,
    txQLen: 0,
  })
})

test("sysctls of args.cni come after those of the top, which need not exist", () => {
  const cni = { sysctl: { "net.ipv4.ip_forward": "1" } }
  const fromArgs = { key: "net.ipv4.ip_forward", value: "1", from: "args.cni.sysctl" as const }
  expect(parse({ args: { cni } }).sysctls).toEqual([fromArgs])
  expect(parse({ sysctl: { "net.core.somaxconn": "500" }, args: { cni } }).sysctls).toEqual([
    { key: "net.core.somaxconn", value: "500", from: "sysctl" },
    fromArgs,
  ])
})

test("sysctls keep the order in which they are written", () => {
  const keys = ["net.ipv4.z", "net.ipv4.a", "net.ipv6.m"]
  const sysctl = Object.fromEntries(keys.map((key) => [key, "1"]))
  expect(parse({ sysctl }).sysctls.map(({ key }) => key)).toEqual(keys)
})

test("wrong values are code 7 with the key, bad CNI_ARGS code 4 with the pair", () => {
  expect(refusal({ mtu: "big" }).message).toContain('"mtu"')
  expect(refusal({ mtu: -1 }).code).toBe(7)
  for (const txQLen of [1.5, -1, 2 ** 32]) expect(refusal({ txQLen }).message).toContain('"txQLen"')
  for (const txQLen of [0, 2 ** 32 - 1]) expect(parse({ txQLen }).link.txQLen).toBe(txQLen)
  expect(refusal({ promisc: "yes" }).message).toContain('"promisc"')
  expect(refusal({ mac: "zz" }).message).toContain('"mac"')
  expect(refusal({ dataDir: "/a\0b" }).message).toContain('"dataDir"')
  expect(refusal({ sysctl: ["net.ipv4.ip_forward"] }).message).toContain('"sysctl"')
  expect(refusal({ sysctl: [] }).message).toContain("expected an object")
  expect(refusal({ sysctl: { "net.ipv4.ip_forward": 1 } }).message).toContain("its value as a string")
  expect(refusal({ args: { cni: { mac: "zz" } } }).message).toContain('"args.cni.mac"')
  expect(refusal({ runtimeConfig: { mac: "zz" } }).message).toContain('"runtimeConfig.mac"')
  expect(refusal({}, "MAC=zz")).toMatchObject({ code: 4 })
  expect(refusal({}, "MAC").message).toContain('invalid pair "MAC"')
  expect(refusal({}, "FOO=bar").message).toContain("unknown args")
})

test("a sysctl outside of the network is refused", () => {
  for (const key of ["kernel.hostname", "net", "", "/etc/passwd", "network.x"]) {
    expect(refusal({ sysctl: { [key]: "1" } }).message).toContain("invalid net sysctl key")
  }
})

test.each(["DEL", "GC"] as const)("%s reads the same configuration without complaint", (verb) => {
  const broken = {
    mtu: "big",
    sysctl: { "kernel.hostname": 5 },
    mac: "zz",
    runtimeConfig: [],
    dataDir: "/run/elsewhere",
  }
  expect(parse(broken, { verb, args: "what" }).dataDir).toBe("/run/elsewhere")
  expect(parse({ sysctl: { "kernel.hostname": "x" }, dataDir: "\0" }, { verb }).dataDir).toBe("/run/cni/tuning")
})

test("a key that comes twice is found, in sysctl and in args.cni.sysctl", () => {
  expect(duplicateKey('{"sysctl": {"net.a": "1", "net.b": "2", "net.a": "1"}}')).toBe("net.a")
  expect(duplicateKey('{"args": {"cni": {"sysctl": {"net.a": "1", "net.a": "2"}}}}')).toBe("net.a")
  expect(duplicateKey('{"Sysctl": {"net.a": "1"}, "SYSCTL": {"net.a": "1"}}')).toBe("net.a")
  expect(duplicateKey(String.raw`{"sysctl": {"net.a": "1", "net\u002ea": "2"}}`)).toBe("net.a")
})

test("the same key at the top and in args.cni is not a duplicate", () => {
  expect(duplicateKey('{"sysctl": {"net.a": "1"}, "args": {"cni": {"sysctl": {"net.a": "2"}}}}')).toBeUndefined()
})

test("keys of other objects are not looked at, nor is what stands in strings", () => {
  expect(duplicateKey('{"x": {"a": 1, "a": 2}, "sysctl": {"net.a": "{\\"sysctl\\": {"}}')).toBeUndefined()
  expect(duplicateKey('{"list": [{"sysctl": {"a": "1", "a": "2"}}, ["a", "a"]], "sysctl": {"a": "a"}}')).toBeUndefined()
  expect(duplicateKey('{"ipam": {"sysctl": {"a": "1", "a": "1"}}}')).toBeUndefined()
})

test("a document without the same key twice has no duplicate", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (sysctl, other) => {
      expect(duplicateKey(JSON.stringify({ other, sysctl, args: { other, cni: { sysctl } } }))).toBeUndefined()
    }),
  )
})

test("a key that was put in twice is found at every level", () => {
  const key = fc.string().filter((text) => text !== "__proto__")
  fc.assert(
    fc.property(fc.dictionary(key, fc.jsonValue(), { minKeys: 1 }), fc.jsonValue(), (sysctl, other) => {
      const [name = ""] = Object.keys(sysctl)
      const inside = `${JSON.stringify(sysctl).slice(0, -1)}, ${JSON.stringify(name)}: ${JSON.stringify(other)}}`
      expect(duplicateKey(`{"other": ${JSON.stringify(other)}, "sysctl": ${inside}}`)).toBe(name)
    }),
  )
})

/** Returns the refusal of a configuration, which is passed as text and as parsed value. */
function duplicateRefusal(text: string): string {
  const keys = Object.keys(JSON.parse(text).sysctl)
  try {
    refuseDuplicateSysctls(
      new TextEncoder().encode(text),
      keys.map((key) => ({ key })),
    )
    return ""
  } catch (error) {
    return String(error)
  }
}

test.each([
  ["twice", '{"sysctl": {"net.a": "1", "net.b": "1", "net.a": "1"}}'],
  ["with an escape", '{"sysctl": {"net.a": "1", "net\\u002ea": "1"}}'],
])("the refusal names a key that comes %s", (_, text) => {
  expect(duplicateRefusal(text)).toContain('duplicated sysctl keys are not allowed: "net.a"')
})

test.each([
  ["with a text that is a key elsewhere", '{"sysctl": {"net.a": "net.a"}, "net.a": {"net.a": 1}}'],
  ["with escapes", '{"sysctl": {"net\\u002ea": "\\"net.a\\""}}'],
])("a configuration %s is not refused", (_, text) => {
  expect(duplicateRefusal(text)).toBe("")
})

test("many keys take time in proportion to the text, not to its square", () => {
  const keys = Array.from({ length: 20_000 }, (_, at) => `net.a${at}`)
  const text = JSON.stringify({ sysctl: Object.fromEntries(keys.map((key) => [key, "1"])) })
  const before = process.cpuUsage()
  expect(duplicateRefusal(text)).toBe("")
  expect(duplicateRefusal(text.replace("net.a19999", "net.a7"))).toContain('"net.a7"')
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(1)
})
