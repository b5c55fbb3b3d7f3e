import { expect, test } from "bun:test"
import { foldKeys, member } from "./mod.ts"

test("a known key is found however it is written, and an unknown one stays", () => {
  expect(foldKeys({ HostPort: 80, PROTOCOL: "tcp", MyKey: 1 }, ["hostPort", "protocol"])).toEqual({
    hostPort: 80,
    protocol: "tcp",
    MyKey: 1,
  })
})

test("an exact match comes before any other, in each order", () => {
  expect(foldKeys({ mtu: 1, MTU: 2 }, ["mtu"])).toEqual({ mtu: 1 })
  expect(foldKeys({ MTU: 2, mtu: 1 }, ["mtu"])).toEqual({ mtu: 1 })
  expect(member({ mtu: 1, MTU: 2 }, "mtu")).toBe(1)
})

test("among the others the last one wins", () => {
  expect(foldKeys({ MTU: 2, Mtu: 3 }, ["mtu"])).toEqual({ mtu: 3 })
  expect(member({ MTU: 2, Mtu: 3 }, "mtu")).toBe(3)
})

test("letters fold as upstream's decoder folds them: long s and the Kelvin sign too", () => {
  expect(foldKeys({ "dn\u017f": 1, "\u212aey": 2 }, ["dns", "key"])).toEqual({ dns: 1, key: 2 })
  expect(foldKeys({ addre\u00df: 1 }, ["address"])).toEqual({ addre\u00df: 1 })
})

test("null and absent are the same", () => {
  expect(member({ Mtu: null }, "mtu")).toBeUndefined()
  expect(member({}, "toString")).toBeUndefined()
})

test("__proto__ is a key like any other", () => {
  const folded = foldKeys(JSON.parse('{"__proto__": {"mtu": 1}, "constructor": 2}'), ["mtu"])
  expect(Object.keys(folded)).toEqual(["__proto__", "constructor"])
  expect(member(folded, "mtu")).toBeUndefined()
})
