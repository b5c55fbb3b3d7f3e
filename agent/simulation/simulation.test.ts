import { describe, expect, test } from "bun:test"
import { extent, seed } from "../../integration/lab/mod.ts"
import { faults } from "./faults.ts"
import { runSchedule, type Verdict } from "./schedule.ts"
import { engine } from "./subject.ts"
import type { Subject } from "./world.ts"

/** A quarter of a minute of one processor in `npm test`; `npm run test:cluster -- --schedules 10000000` is the long form. */
const schedules = Number(process.env.CNI_SCHEDULES ?? extent(1_000, 100_000))

/** The schedules that a fault is given to show itself. */
const schedulesOfFaults = 1_000

test(`agents, a store that loses answers, and nodes that die: ${schedules} schedules break no promise`, async () => {
  const broken = await firstBroken(engine, schedules)
  expect(broken === undefined ? "" : describeVerdict(broken)).toBe("")
}, 7_200_000)

test("a schedule gives the same steps each time", () => {
  const steps = () => runSchedule(seed, { ...engine, ...faults["the store compares nothing"] }, 150)?.steps
  expect(steps()).toEqual(steps())
})

describe("a fault is noticed", () => {
  test.each(Object.entries(faults))("%s", async (_, fault) => {
    const broken = await firstBroken({ ...engine, ...fault }, schedulesOfFaults)
    expect(broken?.steps.length).toBeGreaterThan(0)
  })
})

/** The first schedule that breaks a promise. Now and then the event loop gets a turn: what ended schedules held is freed there. */
async function firstBroken(subject: Subject, count: number): Promise<Verdict | undefined> {
  for (let at = 0; at < count; at++) {
    if (at % 100 === 0) await Bun.sleep(0)
    const broken = runSchedule(seed + at, subject)
    if (broken) return broken
  }
  return undefined
}

function describeVerdict({ seed: failed, broken, steps }: Verdict): string {
  return [...steps.slice(-200), `CNI_TEST_SEED=${failed} CNI_SCHEDULES=1: ${broken}`].join("\n")
}
