import { expect, test } from "bun:test"
import { nameText } from "./codec.ts"
import { hex } from "./testing.ts"

test.each<[string, Uint8Array, string]>([
  ["ASCII", hex`65746830 00`, "eth0"],
  ["UTF-8", hex`c3a9 f09f9280 00`, "é\u{1f480}"],
  ["the character for what is no UTF-8", hex`efbfbd 00`, "\ufffd"],
  ["bytes that are no UTF-8", hex`61 ff c3 00`, "a\udcff\udcc3"],
  ["UTF-8 beside them", hex`c3a9 ff 00`, "\udcc3\udca9\udcff"],
  ["nothing", hex`00`, ""],
])("%s in a link's name comes back as the bytes that it was", (_, bytes, name) => {
  expect(nameText.decode(bytes)).toBe(name)
  expect(nameText.encode(name)).toEqual(bytes)
})

test("every byte comes back, and what ends a name is refused in one", () => {
  const all = Uint8Array.from({ length: 256 }, (_, at) => (at + 1) % 256)
  expect(nameText.encode(nameText.decode(all))).toEqual(all)
  expect(() => nameText.encode("a\0b")).toThrow(RangeError)
  expect(nameText.encode("\udc2f\udcff")).toEqual(hex`efbfbd efbfbd 00`) // not a name that the kernel can return
})
