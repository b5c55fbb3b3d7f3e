import { expect, test } from "bun:test"
import { type Measurement, rowName } from "./measure.ts"
import { allScenarios } from "./scenarios.ts"
import { holds, judge, targets } from "./targets.ts"

const scenarios = allScenarios([
  { name: "ours", directory: "/a" },
  { name: "Go", directory: "/b" },
])

test("every target's rows and contenders exist, and a row has one name", () => {
  const cells = scenarios.flatMap((scenario) =>
    scenario.steps.flatMap((step) => Object.keys(scenario.contenders).map((name) => [rowName(scenario, step), name])),
  )
  expect(new Set(cells.map(String)).size).toBe(cells.length)
  for (const { ours, other } of targets) {
    expect(cells).toContainEqual([...ours])
    expect(cells).toContainEqual([...other])
  }
})

test("every baseline is a contender", () => {
  for (const { contenders, baseline } of scenarios) expect(Object.keys(contenders)).toContain(baseline)
})

const measured = (row: string, contender: string, median: number): Measurement => {
  return { row, contender, runs: 1, min: 0, median, max: 0, cpuMs: 0, faults: 0, peakKb: 2048, ratio: 0 }
}

test("times, rates and the effect of load are judged by medians of ours and the other", () => {
  const burst = "60 containers, 16 at a time, ADDs"
  const verdicts = judge(
    [
      measured("bridge VERSION", "ours", 1),
      measured("bridge VERSION", "Go", 4),
      measured("bridge VERSION, under load", "ours", 6),
      measured("bridge VERSION, under load", "Go", 12),
      measured(burst, "ours", 10),
      measured(burst, "Go", 50),
    ],
    3 * 2 ** 20,
  )
  expect(verdicts.map(({ what, value, must }) => [what, value, must])).toEqual([
    ["VERSION", 0.25, 0.45],
    ["60 containers, 16 at a time: ADD/s", 5, 4],
    ["VERSION, under load", 0.5, 0.54],
    ["VERSION, under load to without", 2, 1.2],
    ["peak RSS of any plugin call", 2, 4],
    ["executable, all plugins", 3, 5],
  ])
  expect(verdicts.map((verdict) => holds(verdict, verdict.must))).toEqual([true, true, true, false, true, true])
})
