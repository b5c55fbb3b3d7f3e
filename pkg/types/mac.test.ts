import { expect, test } from "bun:test"
import fc from "fast-check"
import { formatMac, parseMac } from "./mod.ts"

test("the three spellings of one address read alike", () => {
  const bytes = Uint8Array.of(0x0a, 0x58, 0xc0, 0x00, 0x02, 0x09)
  for (const text of ["0a:58:c0:00:02:09", "0A-58-C0-00-02-09", "0a58.c000.0209"]) expect(parseMac(text)).toEqual(bytes)
})

test("6, 8 and 20 bytes round-trip, the lengths of Ethernet, EUI-64 and InfiniBand", () => {
  const mac = fc.constantFrom(6, 8, 20).chain((length) => fc.uint8Array({ minLength: length, maxLength: length }))
  fc.assert(fc.property(mac, (bytes) => expect(parseMac(formatMac(bytes))).toEqual(bytes)))
})

test.each([
  "",
  "0a:58:c0:00:02",
  "0a:58:c0:00:02:09:11",
  "0a:58-c0:00:02:09",
  "a:58:c0:00:02:09",
  "0a:58:c0:00:02:0g",
  "0a58c0000209",
  "0a:58:c0:00:02:09\n",
  " 0a:58:c0:00:02:09",
])("%j is no hardware address", (text) => {
  expect(parseMac(text)).toBeUndefined()
})
