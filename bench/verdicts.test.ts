import { expect, test } from "bun:test"
import type { Measurement } from "./measure.ts"
import { isUnsure, judge, outcomeOf } from "./verdicts.ts"

const measured = (row: string, contender: string, median: number, more: Partial<Measurement> = {}): Measurement => {
  const shared = { runs: 300, min: 0, p99: 3 * median, max: 0, cpuMs: 0, faults: 0, peakKb: 2048, ratio: 0, failed: 0 }
  const whole = { row, contender, median, ...shared, ...more }
  const sample = { ms: median, cpuMs: whole.cpuMs, peakKb: 0, faults: 0 }
  return { samples: Array.from({ length: 8 }, () => sample), ...whole }
}

test("medians, percentiles, rates and CPU time are judged, of ours to the other", () => {
  const [burst, chain] = ["60 containers, 16 at a time, ADDs", "chain with 1 port beside 1 ADD"]
  const disk = "host-local ADD, with a busy disk"
  const verdicts = judge(
    [
      measured("bridge VERSION", "ours", 1),
      measured("bridge VERSION", "Go", 4),
      measured("bridge VERSION, with 20 busy processes", "ours", 6),
      measured("bridge VERSION, with 20 busy processes", "Go", 12),
      measured(disk, "ours", 10, { p99: 100 }),
      measured(disk, "Go", 20, { p99: 50 }),
      measured(burst, "ours", 10),
      measured(burst, "Go", 105),
      measured(chain, "ours", 0, { cpuMs: 8 }),
      measured(chain, "kernel floor", 0, { cpuMs: 4 }),
      measured("data path, pod to outside, 500 MB", "ours", 1, { peakKb: 9_999 }),
    ],
    30 * 2 ** 20,
  )
  expect(verdicts.map(({ what, value, must }) => [what, value, must])).toEqual([
    ["VERSION", 0.25, 0.2],
    ["60 containers, 16 at a time: ADD/s", 10.5, 10],
    ["host-local ADD, kept store, with a busy disk, median", 0.5, 1],
    ["host-local ADD, kept store, with a busy disk, p99", 2, 1],
    ["VERSION, with 20 busy processes", 0.5, 0.24],
    ["CPU time of chain ADD, relative to the kernel floor and three empty processes", 2, 2.3],
    ["peak RSS of any plugin call", 2, 2.5],
    ["files of all plugins together", 30, 50],
  ])
  const intervals = verdicts.map(({ interval }) => interval && [interval.low, interval.high])
  expect(intervals[0]).toEqual([0.25, 0.25])
  expect(intervals[1]).toEqual([10.5, 10.5])
  expect(intervals[5]).toEqual([2, 2])
  expect(intervals[6]).toBeUndefined()
})

test("a percentile of too few runs says so", () => {
  const row = "host-local DEL, with a busy disk"
  const [, p99] = judge([measured(row, "ours", 1, { runs: 40 }), measured(row, "Go", 2, { runs: 40 })], Number.NaN)
  expect(p99?.what).toBe("host-local DEL, with a busy disk, p99 of 40 runs")
})

test("a bound is met or missed where the whole interval lies on one side of it, and unsure between", () => {
  const verdict = { what: "", value: 1, unit: "x", atMost: true, must: 1, interval: { low: 0.9, high: 1.1 } } as const
  expect([1.1, 1.05, 0.9, 0.89].map((bound) => outcomeOf(verdict, bound))).toEqual([
    "met",
    "unsure",
    "unsure",
    "missed",
  ])
  const rate = { ...verdict, atMost: false }
  expect([0.9, 0.95, 1.1, 1.11].map((bound) => outcomeOf(rate, bound))).toEqual(["met", "unsure", "unsure", "missed"])
  const size = { what: "", value: 3, unit: "MB", atMost: true, must: 3 } as const
  expect([outcomeOf(size, 3), outcomeOf(size, 2.9)]).toEqual(["met", "missed"])
})

test("measurements are unsure while a bound that must hold lies within the interval; a goal does not count", () => {
  const of = (...times: number[]) => ({ samples: times.map((ms) => ({ ms, cpuMs: ms, peakKb: 0, faults: 0 })) })
  const unsure = (...times: number[]) =>
    isUnsure([measured("bridge VERSION", "ours", 1, of(...times)), measured("bridge VERSION", "Go", 6, of(6, 6, 6))])
  expect([unsure(1, 1.1, 1.3), unsure(0.8, 1, 1.1), unsure(1.3, 1.4, 1.5)]).toEqual([true, false, false])
  expect(isUnsure([measured("no such row", "ours", 1)])).toBe(false)
})
