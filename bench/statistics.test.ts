import { expect, test } from "bun:test"
import { summarize } from "./statistics.ts"

test("the median is the middle time, or the mean of the two in the middle", () => {
  expect(summarize([10, 9, 100])).toEqual({ runs: 3, min: 9, median: 10, max: 100 })
  expect(summarize([4, 1, 3, 2]).median).toBe(2.5)
  expect(summarize([7])).toEqual({ runs: 1, min: 7, median: 7, max: 7 })
})

test("no times have no summary", () => {
  expect(() => summarize([])).toThrow("there are no times")
})
