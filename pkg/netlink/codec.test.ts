import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { bytes, concat, flag, mac, text } from "./codec.ts"
import { i32, struct, u8, u16, u16be, u32, u32be, u64, u64be } from "./integers.ts"
import { expectOnlyDecodeErrors, hex } from "./testing.ts"

describe("integers", () => {
  test("have the byte order of their name", () => {
    expect(u8.encode(0xab)).toEqual(hex`ab`)
    expect(u16.encode(0x1234)).toEqual(hex`3412`)
    expect(u16be.encode(0x8100)).toEqual(hex`8100`)
    expect(u32.encode(0x12345678)).toEqual(hex`78563412`)
    expect(u32be.encode(0x12345678)).toEqual(hex`12345678`)
    expect(i32.encode(-2)).toEqual(hex`feffffff`)
    expect(u64.encode(0x0102030405060708n)).toEqual(hex`0807060504030201`)
    expect(u64be.encode(0x0102030405060708n)).toEqual(hex`0102030405060708`)
  })

  test("are read as they are written", () => {
    expect(u8.decode(hex`ff`)).toBe(255)
    expect(u16.decode(hex`3412`)).toBe(0x1234)
    expect(u16be.decode(hex`8100`)).toBe(0x8100)
    expect(u32.decode(hex`ffffffff`)).toBe(0xffffffff)
    expect(u32be.decode(hex`80000001`)).toBe(0x80000001)
    expect(i32.decode(hex`feffffff`)).toBe(-2)
    expect(u64.decode(hex`ffffffffffffffff`)).toBe(2n ** 64n - 1n)
    expect(u64be.decode(hex`0000000000000001`)).toBe(1n)
  })

  test("that do not fit are refused, never wrapped", () => {
    for (const [codec, values] of [
      [u8, [-1, 256, 0.5, Number.NaN]],
      [u16, [-1, 65_536]],
      [u16be, [-1, 65_536]],
      [u32, [-1, 2 ** 32, Number.POSITIVE_INFINITY]],
      [u32be, [-1, 2 ** 32]],
      [i32, [-(2 ** 31) - 1, 2 ** 31]],
    ] as const) {
      for (const value of values) expect(() => codec.encode(value)).toThrow(RangeError)
    }
    for (const value of [-1n, 2n ** 64n]) {
      expect(() => u64.encode(value)).toThrow(RangeError)
      expect(() => u64be.encode(value)).toThrow("expected 0 to 2^64-1")
    }
  })

  test("of a wrong length are refused", () => {
    expect(() => u32.decode(hex`0000`)).toThrow("expected 4 bytes, found 2")
    expect(() => u8.decode(hex`0000`)).toThrow("expected 1 bytes, found 2")
    expect(() => u64.decode(hex``)).toThrow("expected 8 bytes, found 0")
    expect(() => u64be.decode(hex`00`)).toThrow("expected 8 bytes, found 1")
  })

  test("are read in the midst of a larger buffer", () => {
    expect(u32.decode(hex`ffff 01000000 ffff`.subarray(2, 6))).toBe(1)
  })
})

describe("texts", () => {
  test("end in a NUL, and are read with or without it", () => {
    expect(text.encode("é0")).toEqual(hex`c3a9 30 00`)
    expect(text.decode(hex`c3a9 30 00`)).toBe("é0")
    expect(text.decode(hex`76657468`)).toBe("veth")
    expect(text.decode(hex`7600 7465`)).toBe("v")
    expect(text.decode(hex``)).toBe("")
  })

  test("with a NUL inside are refused, since the kernel would cut them short", () => {
    expect(() => text.encode("eth0\0x")).toThrow(RangeError)
  })
})

describe("hardware addresses", () => {
  test("have any length, and both cases are read", () => {
    expect(mac.encode("0a:00:00:00:00:FF")).toEqual(hex`0a00000000ff`)
    expect(mac.decode(hex`0a00000000ff`)).toBe("0a:00:00:00:00:ff")
    expect(mac.decode(hex``)).toBe("")
    expect(mac.encode("")).toEqual(hex``)
  })

  test("that are none are refused, never sent as zeros", () => {
    for (const wrong of [
      "zz:00:00:00:00:01",
      "0a:0:00:00:00:01",
      "1ff:00",
      "0a-00-00-00-00-01",
      "0a:00:",
      " ",
      "0x1",
    ]) {
      expect(() => mac.encode(wrong)).toThrow(`"${wrong}" is not a hardware address`)
    }
  })
})

test("bytes are copied when they are read: the buffer that they came in is used again", () => {
  const buffer = hex`0102`
  const value = bytes.decode(buffer)
  buffer.fill(9)
  expect(value).toEqual(hex`0102`)
  expect(bytes.encode(value)).toEqual(hex`0102`)
})

test("a flag is there without bytes", () => {
  expect(flag.encode(true)).toEqual(hex``)
  expect(flag.decode(hex``)).toBe(true)
})

describe("a struct", () => {
  // struct ifaddrmsg, <linux/if_addr.h>
  const header = struct({ family: u8, prefix: u8, flags: u8, scope: u8, index: i32 })

  test("has its fields one after the other", () => {
    const value = { family: 2, prefix: 24, flags: 0x80, scope: 253, index: 3 }
    expect(header.size).toBe(8)
    expect(header.encode(value)).toEqual(hex`02 18 80 fd 03000000`)
    expect(header.decode(hex`02 18 80 fd 03000000`)).toEqual(value)
  })

  test("of a wrong length is refused", () => {
    expect(() => header.decode(hex`02 18 80`)).toThrow("expected 8 bytes, found 3")
    expect(() => header.decode(hex`02 18 80 fd 03000000 00`)).toThrow("expected 8 bytes, found 9")
  })
})

test("concat puts parts together in order", () => {
  expect(concat([hex`01`, hex``, hex`0203`])).toEqual(hex`010203`)
  expect(concat([])).toEqual(hex``)
})

test("every codec answers any bytes with a value or a DecodeError", () => {
  const header = struct({ a: u8, b: u16be, c: u64 })
  for (const codec of [u8, u16, u16be, u32, u32be, i32, u64, u64be, bytes, text, flag, mac, header]) {
    expectOnlyDecodeErrors(codec.decode)
  }
})

test("what a codec reads it writes again", () => {
  fc.assert(fc.property(fc.nat(0xffffffff), (n) => u32.decode(u32.encode(n)) === n))
  fc.assert(fc.property(fc.uint8Array({ maxLength: 32 }), (raw) => mac.encode(mac.decode(raw)).toHex() === raw.toHex()))
})
