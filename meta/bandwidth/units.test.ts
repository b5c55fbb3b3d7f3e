import { expect, test } from "bun:test"
import { parseBurst, parseRate } from "./units.ts"

test.each([
  ["8000000", 8_000_000],
  ["0", 0],
  ["10M", 10_000_000],
  ["10Mbit", 10_000_000],
  ["10mbit", 10_000_000],
  ["10 Mbit/s", 10_000_000],
  ["512k", 512_000],
  ["512K", 512_000],
  ["512Kibit", 524_288],
  ["1Gbit", 1_000_000_000],
  ["1Gi", 2 ** 30],
  ["2Tbit", 2e12],
  ["1.25MB/s", 10_000_000],
  ["0.5Gbit", 500_000_000],
  ["100 bits", 100],
  ["64KiB", 524_288],
])("a rate of %s is %d bits a second", (text, bits) => expect(parseRate(text)).toBe(bits))

test.each([
  ["256KiB", 2_097_152],
  ["256K", 256_000],
  ["2Mbit", 2_000_000],
  ["1B", 8],
  ["4294967294B", 34_359_738_352],
])("a burst of %s is %d bits", (text, bits) => expect(parseBurst(text)).toBe(bits))

test.each([
  ...["", "fast", "M", "10 X", "-1", "+1", "1e6", "0x10", " 10", "10 ", "10  M", "1,000", "ten"],
  "10m", // a hundredth for Kubernetes
  "10mB",
  "10b", // bytes for tc, bits for others
  "10Mb",
  "10Mbps", // bytes for tc, bits for others
  "10bps",
  "1.5", // a fraction of a bit
  "0.0001k",
  "9007199254740992", // 2^53
  "18446744073709551615",
  "9999999999T",
])("%p says nothing that has one meaning", (text) => {
  expect(parseRate(text)).toBeUndefined()
  expect(parseBurst(text)).toBeUndefined()
})

test("a burst is not a rate", () => expect(parseBurst("1Mbit/s")).toBeUndefined())
