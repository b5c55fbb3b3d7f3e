import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseIpvlanConfig } from "./config.ts"

function parse(keys: JsonObject, verb: Verb = "ADD") {
  const raw = { cniVersion: "1.1.0", name: "lan", type: "ipvlan", ...keys }
  return parseIpvlanConfig(parseNetworkConfig(raw, { lenient: verb === "DEL" }), { args: "", verb, raw })
}

const defaults = {
  master: undefined,
  linkInContainer: false,
  mode: "l2",
  flag: "bridge",
  mtu: undefined,
  mac: undefined,
} as const

test("no key is needed, and an empty text means no value", () => {
  expect(parse({})).toMatchObject({ ...defaults, dns: undefined, ipam: undefined })
  expect(parse({ master: "", mode: "", flag: "", mtu: 0, ipam: { type: "" } })).toEqual(parse({}))
  expect(parse({ mtu: -1 }).mtu).toBeUndefined() // the same as upstream
})

test("every key, in any case", () => {
  const keys = { MASTER: "eth1", Mode: "l3s", flag: "vepa", mtu: 1400, linkincontainer: true, ipam: { type: "static" } }
  const expected = {
    master: "eth1",
    mode: "l3s",
    flag: "vepa",
    mtu: 1400,
    linkInContainer: true,
    ipam: "static",
  } as const
  expect(parse(keys)).toMatchObject({ ...expected, mac: undefined, dns: undefined })
})

test("a master may be named by an alternative name, which is longer than a name", () => {
  const master = "enp179s0f1np1-with-an-alternative-name"
  expect(parse({ master }).master).toBe(master)
  for (const bad of ["a/b", "a b", "x".repeat(128), 5]) {
    expect(refusalOf(() => parse({ master: bad }))).toMatchObject({
      code: 7,
      message: expect.stringContaining('"master"'),
    })
  }
})

test.each([
  [{ mode: "L2" }, 'Cannot use "mode": expected "l2", "l3" or "l3s", found "L2"'],
  [{ flag: "passthru" }, 'Cannot use "flag": expected "bridge", "private" or "vepa", found "passthru"'],
  [{ mtu: 65536 }, 'Cannot use "mtu"'],
  [{ mtu: 60 }, 'Cannot use "mtu"'],
  [{ linkInContainer: "yes" }, 'Cannot use "linkInContainer"'],
])("%j is code 7, and for DEL absent", (keys, message) => {
  expect(refusalOf(() => parse(keys))).toMatchObject({ code: 7, message: expect.stringContaining(message) })
  expect(parse(keys, "DEL")).toMatchObject(defaults)
})
