import { expect, test } from "bun:test"
import { pluginNames } from "../suite/plugins.ts"
import { extended, goesOn, rowName } from "./measure.ts"
import { allScenarios, leftOutHere } from "./scenarios.ts"
import { targets } from "./targets.ts"

const scenarios = allScenarios([
  { name: "ours", directory: "/a" },
  { name: "Go", directory: "/b" },
])
const rows = scenarios.flatMap((scenario) => scenario.steps.map((step) => rowName(scenario, step)))

test("every target's rows and contenders exist, and a row has one name", () => {
  const cells = scenarios.flatMap((scenario) =>
    scenario.steps.flatMap((step) => Object.keys(scenario.contenders).map((name) => [rowName(scenario, step), name])),
  )
  expect(new Set(cells.map(String)).size).toBe(cells.length)
  for (const { ours, other } of targets) {
    expect(cells).toContainEqual([...ours])
    expect(cells).toContainEqual([...other])
  }
  expect(new Set(targets.map(({ what }) => what)).size).toBe(targets.length)
})

test("every baseline is a contender, of the suites that have the plugin", () => {
  for (const { contenders, baseline } of scenarios) expect(Object.keys(contenders)).toContain(baseline)
})

test("every plugin has rows: its start, and its work unless the kernel cannot do it", () => {
  for (const name of pluginNames) {
    expect(rows).toContain(`VERSION of ${name}`)
    const works = rows.filter((row) => row.split(/[+, ]/).includes(name) && /\b(ADD|ADDs)\b/.test(row))
    if (!leftOutHere().includes(name)) expect({ name, rows: works.length }).not.toEqual({ name, rows: 0 })
  }
})

test("every row of the table has one with twenty busy processes", () => {
  const busy = targets.filter(({ what }) => what.endsWith(", with 20 busy processes"))
  expect(busy.map(({ must }) => must).slice(0, 4)).toEqual([0.24, 0.96, 0.6, 0.54])
  expect(busy.find(({ what }) => what.includes("ADD/s"))?.must).toBe(8.33)
})

test("a scenario ends with its runs or its time, but not before it has a few rounds", () => {
  const [scenario] = scenarios
  if (!scenario) throw new Error("there are no scenarios")
  const limits = { runs: 300, seconds: 20 }
  const at = (rounds: number, seconds: number, more: object = {}) =>
    goesOn({ ...scenario, ...more }, limits, rounds, seconds)
  expect([at(299, 19), at(300, 19), at(10, 20), at(4, 100), at(5, 100)]).toEqual([true, false, false, true, false])
  expect([at(10, 79, { patience: 4 }), at(10, 80, { patience: 4 }), at(2, 100, { atLeast: 2 })]).toEqual([
    true,
    false,
    false,
  ])
  expect(goesOn(scenario, { runs: 1, seconds: 20 }, 1, 0)).toBe(false)
})

test("an unsure scenario gets as much again, up to four times", () => {
  const limits = { runs: 300, seconds: 5 }
  const second = extended(limits, limits)
  expect(second).toEqual({ runs: 600, seconds: 10 })
  expect(extended({ runs: 900, seconds: 15 }, limits)).toEqual({ runs: 1200, seconds: 20 })
  expect(extended({ runs: 1200, seconds: 20 }, limits)).toBeUndefined()
})
