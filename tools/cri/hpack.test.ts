import { expect, test } from "bun:test"
import { hex } from "../../pkg/netlink/testing.ts"
import { decodeHeaders } from "./hpack.ts"

/** A value of the header "a" with Huffman's code. */
const decode = (bytes: Uint8Array) => decodeHeaders(Uint8Array.from([...hex`00 01 61`, 0x80 | bytes.length, ...bytes]))

// RFC 7541 appendix C.4 and C.6
test.each([
  ["www.example.com", hex`f1e3c2e5f23a6ba0ab90f4ff`],
  ["no-cache", hex`a8eb10649cbf`],
  ["custom-key", hex`25a849e95ba97d7f`],
  ["custom-value", hex`25a849e95bb8e8b4bf`],
  ["302", hex`6402`],
  ["private", hex`aec3771a4b`],
  ["Mon, 21 Oct 2013 20:13:21 GMT", hex`d07abe941054d444a8200595040b8166e082a62d1bff`],
  ["https://www.example.com", hex`9d29ad171863c78f0b97c8e9ae82ae43d3`],
  [
    "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    hex`94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007`,
  ],
])("%s", (text, bytes) => {
  expect(decode(bytes)).toEqual([["a", text]])
})

// RFC 7541 appendix B: the longest codes, and the end of a text
test("bytes with the longest codes", () => {
  // 10: 0x3ffffffc, 13: 0x3ffffffd, 22: 0x3ffffffe in 30 bits each, then 6 bits of the end
  const bits = ["3ffffffc", "3ffffffd", "3ffffffe"].map((code) =>
    Number.parseInt(code, 16).toString(2).padStart(30, "0"),
  )
  const all = bits.join("").padEnd(96, "1")
  const bytes = Uint8Array.from(all.match(/.{8}/g) ?? [], (eight) => Number.parseInt(eight, 2))
  expect(decode(bytes)).toEqual([["a", "\n\r\u0016"]])
})

test.each([
  ["the end inside", hex`3fffffffff`, "an end inside"],
  ["padding of zeros", hex`18`, "cut off"],
  ["padding of a whole byte", hex`a8eb10649cbfff`, "cut off"],
])("a text with %s is refused", (_, bytes, says) => {
  expect(() => decode(bytes)).toThrow(says)
})

test("entries of the static table: the status, and names that do not matter", () => {
  expect(decodeHeaders(hex`88 8e 48 03 353030 5f 01 78 0f10 01 79`)).toEqual([
    [":status", "200"],
    [":status", "500"],
    [":status", "500"], // 48: entry 8's name, kept
    ["", "x"], // 5f: content-type, kept; its value has 1 byte
    ["", "y"], // 0f10: the same, not kept
  ])
})
