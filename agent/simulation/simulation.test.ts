import { describe, expect, test } from "bun:test"
import { extent, isLong, seed } from "../../integration/lab/mod.ts"
import { faults } from "./faults.ts"
import { runSchedule, runSchedules, type Verdict } from "./schedule.ts"
import { runInProcesses } from "./slices.ts"
import { engine } from "./subject.ts"

/** A hundred seconds of processor time in `npm test`; `.ci/run` goes on to 100,000; `npm run test:cluster -- --schedules 10000000` is the long form. */
const schedules = Number(process.env.CNI_SCHEDULES ?? extent(40_000, 1_000_000))

/** With more schedules it is worth the time that another process takes to compile the engine. */
const schedulesOfOne = 2_000

/** The schedules that a fault is given to show itself: most need less than a hundred, the rarest a thousand. */
const schedulesOfFaults = 10_000

test(`agents, a store that loses answers, and nodes that die: ${schedules} schedules break no promise`, async () => {
  const tell = (next: number) => isLong && console.error(`All held up to seed ${next - 1}; "--from ${next}" goes on`)
  const broken = await (schedules > schedulesOfOne
    ? runInProcesses(seed, schedules, tell)
    : runSchedules(seed, schedules, engine))
  expect(broken === undefined ? "" : describeVerdict(broken)).toBe("")
}, 86_400_000)

test("a schedule gives the same steps each time", () => {
  const steps = () => runSchedule(seed, { ...engine, ...faults["the store compares nothing"] }, 150)?.steps
  expect(steps()).toEqual(steps())
})

describe("a fault is noticed", () => {
  test.each(Object.entries(faults))("%s", async (_, fault) => {
    const broken = await runSchedules(seed, schedulesOfFaults, { ...engine, ...fault })
    expect(broken?.steps.length).toBeGreaterThan(0)
  })
})

function describeVerdict({ seed: failed, broken, steps }: Verdict): string {
  return [...steps.slice(-200), `CNI_TEST_SEED=${failed} CNI_SCHEDULES=1: ${broken}`].join("\n")
}
