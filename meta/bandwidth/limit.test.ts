import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { type Qdisc, qdiscKinds } from "../../pkg/netlink/mod.ts"
import {
  defaultBurst,
  describeQdisc,
  htbOptions,
  isHtbClassOf,
  isTbfOf,
  type Limit,
  queueLimit,
  tbfOptions,
} from "./limit.ts"

const asQdisc = (limit: Limit): Qdisc => ({
  kind: "tbf",
  handle: 0x10000,
  parent: 0xffffffff,
  options: qdiscKinds.tbf.encode(tbfOptions(limit)),
})

describe("a limit", () => {
  // The figures of upstream's plugin 1.1.1 and its tests: rate in bytes, then limit and buffer.
  test.each([
    [{ rate: 1_000_000, burst: 100_000 }, 125_000, 1_562_500],
    [{ rate: 1, burst: 1 }, 1, 15_625_000],
    [{ rate: 1000, burst: 10 }, 35, 156_250],
    [{ rate: 5_000_000_000, burst: 100_000 }, 125_100_000, 312],
  ])("of %p lets %d bytes wait and has upstream's buffer of %d ticks", (limit, queue, buffer) => {
    expect(tbfOptions(limit).parameters).toMatchObject({ limit: queue, buffer })
    expect(tbfOptions(limit).burst).toBeUndefined()
  })

  // 40 Mbit at 8 kbit/s: with ticks of 32 bits the burst became 155 276 bytes (KW-BW3).
  test("whose burst takes more ticks than 32 bits hold has it in bytes", () => {
    const limit = { rate: 1000, burst: 5_000_000 }
    expect(tbfOptions(limit)).toMatchObject({ burst: 5_000_000, parameters: { limit: 5_000_025, buffer: 0xffffffff } })
    expect(isTbfOf(asQdisc(limit), limit)).toBe(true)
    expect(isTbfOf(asQdisc(limit), { ...limit, burst: 4_999_999 })).toBe(false)
  })

  test("whose burst takes less than a tick has it in bytes, too", () => {
    expect(tbfOptions({ rate: 1e11, burst: 1500 }).burst).toBe(1500)
  })

  test("fits into the kernel's fields, and is known again", () => {
    const any = fc.record({
      rate: fc.integer({ min: 1, max: 2 ** 50 }),
      burst: fc.integer({ min: 1, max: 2 ** 32 - 2 }),
    })
    const check = (limit: Limit) => {
      expect(isTbfOf(asQdisc(limit), limit)).toBe(true)
      expect(isTbfOf(asQdisc(limit), { ...limit, rate: limit.rate + 1 })).toBe(false)
      expect(isHtbClassOf({ id: 1, options: htbOptions(limit) }, limit)).toBe(true)
      expect(isHtbClassOf({ id: 1, options: htbOptions(limit) }, { ...limit, rate: limit.rate + 1 })).toBe(false)
      expect(queueLimit(limit)).toBeLessThanOrEqual(0xffffffff)
      qdiscKinds.tbf.encode(tbfOptions(limit)) // throws if a value is too large for its field
    }
    fc.assert(fc.property(any, check))
  })

  test("of a class is in both of its rates, and in its burst", () => {
    const limit = { rate: 1_000_000, burst: 100_000 }
    const { parameters } = htbOptions(limit)
    const isClassWith = (change: object) =>
      isHtbClassOf({ id: 1, options: { parameters: { ...parameters, ...change } as typeof parameters } }, limit)
    expect(isClassWith({})).toBe(true)
    for (const change of [{ rate: 999_999 }, { ceil: 1_000_001 }, { buffer: 1 }])
      expect(isClassWith(change)).toBe(false)
    expect(isHtbClassOf({ id: 1, options: {} }, limit)).toBe(false)
  })

  test("is never that of another kind", () => {
    expect(isTbfOf({ ...asQdisc({ rate: 1, burst: 1 }), kind: "htb" }, { rate: 1, burst: 1 })).toBe(false)
  })
})

test("without a burst it is 20 ms, at least 32 KiB, at most what fits", () => {
  expect([1, 1e6, 1.25e6, 1.25e8, 1e12].map(defaultBurst)).toEqual([32768, 32768, 32768, 2_500_000, 2 ** 32 - 2])
})

test("a qdisc is described as tc does it", () => {
  expect(describeQdisc(undefined)).toBe("none")
  expect(describeQdisc({ ...asQdisc({ rate: 1, burst: 1 }), kind: "mq", handle: 0x80010000 })).toBe("mq 8001:")
  const limit = { rate: 5_000_000_000, burst: 10_000_000 }
  expect(describeQdisc(asQdisc(limit))).toBe("tbf 1: rate 40000000000bit burst 10000000b limit 135000000b")
})
