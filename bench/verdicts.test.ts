import { expect, test } from "bun:test"
import type { Measurement } from "./measure.ts"
import { holds, judge } from "./verdicts.ts"

const measured = (row: string, contender: string, median: number, more: Partial<Measurement> = {}): Measurement => {
  const shared = { runs: 300, min: 0, p99: 3 * median, max: 0, cpuMs: 0, faults: 0, peakKb: 2048, ratio: 0 }
  return { row, contender, median, ...shared, ...more }
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
    ["chain ADD to kernel floor + three empty processes, CPU time", 2, 2.3],
    ["peak RSS of any plugin call", 2, 2.5],
    ["files of all plugins together", 30, 50],
  ])
  const met = verdicts.map((verdict) => holds(verdict, verdict.must))
  expect(met).toEqual([false, true, true, false, false, true, true, true])
})

test("a percentile of too few runs says so", () => {
  const row = "host-local DEL, with a busy disk"
  const [, p99] = judge([measured(row, "ours", 1, { runs: 40 }), measured(row, "Go", 2, { runs: 40 })], Number.NaN)
  expect(p99?.what).toBe("host-local DEL, with a busy disk, p99 of 40 runs")
})
