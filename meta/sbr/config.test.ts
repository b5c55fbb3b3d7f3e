import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseSbrConfig } from "./config.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "sbr" }
const parse = (raw: JsonObject, verb: Verb = "ADD") => parseSbrConfig(network, { args: "", verb, raw })

test("without keys every address has a table of its own, and networks leave table main", () => {
  const { table, gateways, addSourceHints } = parse({})
  expect({ table, gateways, addSourceHints }).toEqual({ table: undefined, gateways: new Map(), addSourceHints: false })
  expect(parse({ gateways: [] })).toEqual(parse({}))
})

test("keys count in any case; gateways are told apart by their families", () => {
  const read = parse({ Table: 7, AddSourceHints: true, GATEWAYS: ["fd00::1", "10.1.0.1"] })
  expect([read.table, read.addSourceHints]).toEqual([7, true])
  expect(read.gateways).toEqual(
    new Map([
      [10, Uint8Array.fromHex("fd000000000000000000000000000001")],
      [2, Uint8Array.of(10, 1, 0, 1)],
    ]),
  )
  for (const table of [1, 4294967295]) expect(parse({ table }).table).toBe(table)
})

test.each<[JsonObject, string]>([
  [{ table: 0 }, 'Cannot use "table": expected a whole number from 1 to 4294967295, found 0'],
  [{ table: 4294967296 }, 'Cannot use "table"'],
  [{ addSourceHints: "yes" }, 'Cannot use "addSourceHints"'],
  [{ gateways: "10.1.0.1" }, 'Cannot use "gateways"'],
  [{ gateways: [1] }, 'Cannot use "gateways[0]": expected an address, found 1'],
  [
    { gateways: ["10.1.0.1/16"] },
    'Cannot use "gateways": expected addresses without a prefix length, found "10.1.0.1/16"',
  ],
  [{ gateways: ["10.1.0.1", "10.1.0.2"] }, "gateways list contains multiple IPv4 addresses: 10.1.0.1, 10.1.0.2"],
  [{ gateways: ["fd00::1", "fd00::2"] }, "gateways list contains multiple IPv6 addresses: fd00::1, fd00::2"],
  [
    { gateways: ["10.1.0.1", "fd00::1", "fd00::2"] },
    "gateways list cannot contain more than 2 entries (1 for IPv4 and 1 for IPv6): 10.1.0.1, fd00::1, fd00::2",
  ],
])("%j is code 7, and counts as absent for DEL and GC", (raw, message) => {
  expect(refusalOf(() => parse(raw))).toMatchObject({ code: 7, message: expect.stringContaining(message) })
  for (const verb of ["DEL", "GC"] as const) expect(parse(raw, verb)).toEqual(parse({}))
})
