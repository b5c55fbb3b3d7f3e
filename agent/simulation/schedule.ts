import { chooseHappenings } from "./happenings.ts"
import { type Subject, World } from "./world.ts"

/** What became of a schedule: nothing, or what was broken, and the steps up to there. */
export interface Verdict {
  readonly seed: number
  readonly broken: string
  readonly steps: readonly string[]
}

/** Runs one schedule; `undefined` where all promises held. What fails runs again, and tells its steps. */
export function runSchedule(seed: number, subject: Subject, steps = 150): Verdict | undefined {
  try {
    using world = new World(seed, subject)
    run(world, steps)
    return undefined
  } catch {
    using world = new World(seed, subject, { isTold: true })
    try {
      run(world, steps)
    } catch (error) {
      return { seed, broken: String(error), steps: world.scheduler.steps ?? [] }
    }
    return { seed, broken: "it failed once, and not when it was replayed", steps: world.scheduler.steps ?? [] }
  }
}

function run(world: World, steps: number): void {
  world.run(steps, chooseHappenings(world.scheduler.chance))
}
