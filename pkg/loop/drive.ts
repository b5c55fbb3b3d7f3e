import { engine } from "../engine/mod.ts"
import { leave } from "./leave.ts"
import { loop } from "./loop.ts"

/**
 * Runs a program to its end, and ends the process with the status that it returns. Throws what the program throws, and what a
 * promise was rejected with that nothing listens to; also when the program is not over and nothing is left to wait for.
 */
export function drive(program: () => Promise<number>): void {
  void program().then(leave)
  if (!engine.runJobs) return // the engine's own loop goes on
  for (;;) {
    engine.runJobs()
    if (!loop.isWaiting) throw new Error("Cannot go on: nothing is left to wait for")
    loop.turn()
  }
}
