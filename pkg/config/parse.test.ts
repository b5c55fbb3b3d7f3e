import { expect, test } from "bun:test"
import type { CniError, JsonObject } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { type Fields, interfaceName, macAddress, off, parseConfig } from "./mod.ts"

const port = { kind: "object", fields: { hostPort: { kind: "integer", min: 1, max: 65535, required: true } } } as const

const schema = {
  bridge: { ...interfaceName, default: "cni0" },
  isGateway: off,
  mtu: { kind: "integer", min: 0, max: 65535, default: 0 },
  runtimeConfig: { kind: "object", fields: { mac: macAddress, ports: { kind: "list", of: port } } },
} as const satisfies Fields

function refusal(raw: JsonObject, fields: Fields = schema): CniError {
  return refusalOf(() => void parseConfig(fields, raw))
}

test("what is absent or null gets its default", () => {
  expect(parseConfig(schema, { mtu: null })).toEqual({ bridge: "cni0", isGateway: false, mtu: 0 })
})

test("keys match ignoring case at every level, lists included; unknown keys are let through", () => {
  const read = parseConfig(schema, { ISGATEWAY: true, RuntimeConfig: { Ports: [{ HostPort: 80 }] }, other: 1 })
  expect(read.isGateway).toBe(true)
  expect(read.runtimeConfig?.ports).toEqual([{ hostPort: 80 }])
})

test("a wrong value is code 7 and names key, expectation and value", () => {
  const error = refusal({ mtu: 70000 })
  expect(error.code).toBe(7)
  expect(error.message).toBe('Cannot use "mtu": expected a whole number from 0 to 65535, found 70000')
  expect(refusal({ isGateway: "yes" }).message).toBe('Cannot use "isGateway": expected true or false, found "yes"')
  expect(refusal({ mtu: 1.5 }).message).toContain("found 1.5")
})

test("a value deep inside is named by its whole path", () => {
  expect(refusal({ runtimeConfig: { ports: [{ hostPort: 1 }, { hostPort: 0 }] } }).message).toContain(
    '"runtimeConfig.ports[1].hostPort"',
  )
  expect(refusal({ runtimeConfig: { mac: "zz" } }).message).toContain('found "zz"')
})

test("a key that has to be there is missed by its path, in the words of its object, if it has any", () => {
  const missing = refusal({ runtimeConfig: { ports: [{ hostPort: 1 }, {}] } })
  expect(missing.message).toBe(
    'Cannot use "runtimeConfig.ports[1].hostPort": expected a whole number from 1 to 65535, found nothing',
  )
  const pair = { kind: "object", fields: { first: { ...macAddress, required: true } }, expected: "a pair" } as const
  expect(refusal({ pair: {} }, { pair }).message).toBe('Cannot use "pair.first": expected a pair, found nothing')
})

test("the first wrong key in the order of the schema is the one that is named", () => {
  expect(refusal({ runtimeConfig: 5, mtu: "x", isGateway: 1 }).message).toContain('"isGateway"')
})

test("a list has null in it only where its schema says so", () => {
  const vlan = { kind: "object", fields: { id: { kind: "integer" } }, nullable: true } as const
  expect(parseConfig({ vlans: { kind: "list", of: vlan } }, { vlans: [null, { ID: 5 }] })).toEqual({
    vlans: [null, { id: 5 }],
  })
  expect(refusal({ runtimeConfig: { ports: [null] } }).message).toContain('ports[0]": expected an object, found null')
  expect(refusal({ runtimeConfig: { ports: [[]] } }).message).toContain('ports[0]": expected an object, found []')
})

test("a choice may be read in either case", () => {
  const protocol = { kind: "choice", of: ["tcp", "udp"], expected: "tcp or udp", ignoreCase: true } as const
  expect(parseConfig({ protocol }, { protocol: "UDP" })).toEqual({ protocol: "udp" })
  expect(refusal({ protocol: "icmp" }, { protocol }).message).toBe(
    'Cannot use "protocol": expected tcp or udp, found "icmp"',
  )
  const { ignoreCase: _, ...strict } = protocol
  expect(refusal({ protocol: "UDP" }, { protocol: strict }).message).toContain('found "UDP"')
})

test("a quantity is a number, however large, or a text, and what its reader makes of it", () => {
  const read = (written: string) => (written === "many" ? 7 : /^\d+$/.test(written) ? written.length : undefined)
  const schema = { amount: { kind: "quantity", expected: "an amount", read } } as const
  const amounts = [12, "many", JSON.rawJSON("18446744073709551615"), "123"]
  expect(amounts.map((amount) => parseConfig(schema, { amount }).amount)).toEqual([2, 7, 20, 3])
  expect(refusal({ amount: 1.5 }, schema).message).toBe('Cannot use "amount": expected an amount, found 1.5')
  for (const amount of [true, [], {}, "x", -1])
    expect(() => parseConfig(schema, { amount })).toThrow("expected an amount")
})

test("the keys of a record are kept as they are written, __proto__ among them", () => {
  const sysctl = { kind: "record", of: { kind: "text", expected: "its value as a string" } } as const
  const raw = JSON.parse('{"SYSCTL": {"Net/A": "1", "__proto__": "2"}}')
  expect(JSON.stringify(parseConfig({ sysctl }, raw))).toBe('{"sysctl":{"Net/A":"1","__proto__":"2"}}')
  expect(refusal({ sysctl: { a: null } }, { sysctl }).message).toContain('"sysctl.a": expected its value as a string')
  expect(refusal({ sysctl: [] }, { sysctl }).message).toContain("expected an object")
})

test("a cleanup reads what is right and takes the rest for absent", () => {
  const read = parseConfig(schema, { bridge: "a/b", mtu: "big", isGateway: true }, true)
  expect(read).toEqual({ bridge: "cni0", isGateway: true, mtu: 0 })
})
