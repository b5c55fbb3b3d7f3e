import { expect, test } from "bun:test"
import { commentUserdata, readComment } from "./userdata.ts"

// Type 0, the length with the NUL, the text: `nft --debug=netlink add element … { 10.0.0.1 comment "x" }`
test("a comment is one entry, with its NUL", () => {
  expect(commentUserdata("x")).toEqual(Uint8Array.of(0, 2, 0x78, 0))
  expect(commentUserdata(undefined)).toBeUndefined()
})

test("a comment is found among other entries", () => {
  expect(readComment(Uint8Array.of(5, 1, 0xff, 0, 3, 0x61, 0x62, 0))).toBe("ab")
})

test("no entry, no user data, and bytes of another make are no comment", () => {
  expect(readComment(undefined)).toBeUndefined()
  expect(readComment(Uint8Array.of(5, 1, 0xff))).toBeUndefined()
  expect(readComment(new TextEncoder().encode("not entries"))).toBeUndefined()
})

test("127 bytes are the longest comment, counted in UTF-8", () => {
  expect(commentUserdata("x".repeat(127))).toHaveLength(130)
  expect(() => commentUserdata("x".repeat(128))).toThrow("A comment of 128 bytes: nft shows at most 127")
  expect(() => commentUserdata("ü".repeat(64))).toThrow("A comment of 128 bytes")
})
