import { expect, test } from "bun:test"
import * as v from "valibot"
import { CniError, type JsonObject } from "../types/mod.ts"
import { integer, interfaceName, macAddress, off, parseConfig } from "./mod.ts"

const schema = v.object({
  bridge: v.optional(interfaceName, "cni0"),
  isGateway: off,
  mtu: v.optional(integer(0, 65535), 0),
  runtimeConfig: v.optional(
    v.object({ mac: v.optional(macAddress), ports: v.optional(v.array(v.object({ hostPort: integer(1, 65535) }))) }),
  ),
})

function refusal(raw: JsonObject): CniError {
  try {
    parseConfig(schema, raw)
  } catch (error) {
    if (error instanceof CniError) return error
  }
  throw new Error("it was accepted")
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

test("a cleanup reads what is right and takes the rest for absent", () => {
  const read = parseConfig(schema, { bridge: "a/b", mtu: "big", isGateway: true }, true)
  expect(read).toEqual({ bridge: "cni0", isGateway: true, mtu: 0 })
})
