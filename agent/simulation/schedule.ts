import { chooseHappenings } from "./happenings.ts"
import { type Subject, World } from "./world.ts"

/** What became of a schedule: nothing, or what was broken, and the steps up to there. */
export interface Verdict {
  readonly seed: number
  readonly broken: string
  readonly steps: readonly string[]
}

/** With 60 the mistakes that are hardest to notice were found a quarter as often in the same time, or not at all. */
const STEPS = 150

/** Runs one schedule; `undefined` where all promises held. What fails runs again, and tells its steps. */
export function runSchedule(seed: number, subject: Subject, steps = STEPS): Verdict | undefined {
  const { stackTraceLimit } = Error
  try {
    Error.stackTraceLimit = 0 // errors are part of the schedule, and the way to each costs as much as ten steps
    using world = new World(seed, subject)
    run(world, steps)
    return undefined
  } catch {
    Error.stackTraceLimit = stackTraceLimit
    using world = new World(seed, subject, { isTold: true })
    try {
      run(world, steps)
    } catch (error) {
      return { seed, broken: String(error), steps: world.scheduler.steps ?? [] }
    }
    return { seed, broken: "it failed once, and not when it was replayed", steps: world.scheduler.steps ?? [] }
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Runs schedules one after another; answers the first that breaks a promise. Now and then the event loop gets a turn, which frees memory. */
export async function runSchedules(first: number, count: number, subject: Subject): Promise<Verdict | undefined> {
  for (let at = 0; at < count; at++) {
    if (at % 100 === 0) await Bun.sleep(0)
    const broken = runSchedule(first + at, subject)
    if (broken) return broken
  }
  return undefined
}

function run(world: World, steps: number): void {
  world.run(steps, chooseHappenings(world.scheduler.chance))
}
