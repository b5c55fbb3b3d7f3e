import { expect, test } from "bun:test"
import { crc32, sha256, sha512 } from "./digest.ts"

// The expected values are those of zlib, sha256sum and sha512sum. The first of each is the check value in its standard.
test.each([
  ["123456789", 0xcbf43926],
  ["", 0],
  ["a", 0xe8b7be43],
  ["é", 0x0e048d3e],
])("the CRC-32 of %j is that of zlib", (text, sum) => {
  expect(crc32(text)).toBe(sum)
})

test("SHA-256 and SHA-512 are those of FIPS 180-4, in lower case, with every zero", () => {
  expect(sha256("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  expect(sha512("abc")).toBe(
    "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
  )
})
