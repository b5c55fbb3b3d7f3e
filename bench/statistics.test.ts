import { expect, test } from "bun:test"
import { runsForP99, summarize } from "./statistics.ts"

test("the median is the middle time, or the mean of the two in the middle", () => {
  expect(summarize([10, 9, 100])).toEqual({ runs: 3, min: 9, median: 10, p99: 100, max: 100 })
  expect(summarize([4, 1, 3, 2]).median).toBe(2.5)
  expect(summarize([7])).toEqual({ runs: 1, min: 7, median: 7, p99: 7, max: 7 })
})

test("one of a hundred times is longer than the 99th percentile, and three of three hundred", () => {
  const upTo = (count: number) => Array.from({ length: count }, (_, at) => count - at)
  expect([99, 100, 101, 200, 300].map((count) => summarize(upTo(count)).p99)).toEqual([99, 99, 100, 198, 297])
})

test("so many runs have one beyond the true 99th percentile, but for one time in twenty", () => {
  expect(0.99 ** runsForP99).toBeLessThan(0.05)
  expect(0.99 ** (runsForP99 - 2)).toBeGreaterThan(0.05)
})

test("no times have no summary", () => {
  expect(() => summarize([])).toThrow("there are no times")
})
