import { describe, expect, test } from "bun:test"
import { intervalOf, runsForP99, summarize } from "./statistics.ts"

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

describe("the interval of a ratio", () => {
  /** Returns times that differ from `middle` by at most `spread`, the same at each call. */
  const about = (middle: number, spread: number, count: number, step = 7) =>
    Array.from({ length: count }, (_, at) => middle * (1 + spread * (((at * step) % 11) / 5 - 1)))

  test("has the ratio of the medians in it, and is the narrower the more rounds there are", () => {
    const widths = [20, 80, 320].map((count) => {
      const { low, high } = intervalOf(about(2, 0.2, count), about(4, 0.2, count, 3), "median")
      expect(low).toBeLessThan(0.5)
      expect(high).toBeGreaterThan(0.5)
      return high - low
    })
    expect(widths).toEqual(widths.toSorted((a, b) => b - a))
  })

  test("does not see what hits all contenders of a round alike", () => {
    const times = about(3, 0.5, 60)
    const { low, high } = intervalOf(
      times.map((time) => 2 * time),
      times,
      "median",
    )
    expect([low, high]).toEqual([2, 2])
  })

  test("of few rounds reaches from the lowest ratio to the highest", () => {
    expect(intervalOf([1, 2, 3], [2, 2, 2], "median")).toEqual({ low: 0.5, high: 1.5 })
    expect(intervalOf([1, 9], [2], "median")).toEqual({ low: 0.5, high: 0.5 })
  })

  test("of a percentile knows that one long time may as well not have come", () => {
    const { low, high } = intervalOf([...about(1, 0, 199), 50], about(1, 0, 200), "p99")
    expect([low, high]).toEqual([1, 50])
  })

  test("is the same for the same times", () => {
    const times = [about(2, 0.2, 40), about(4, 0.2, 40, 3)] as const
    expect(intervalOf(...times, "median")).toEqual(intervalOf(...times, "median"))
    expect(() => intervalOf([], [], "median")).toThrow("there are no times")
  })
})
