import { encodeUtf8, engine, withFrames } from "../engine/mod.ts"
import { type Fd, writeAll } from "../libc/mod.ts"
import { leave } from "./leave.ts"
import { loop } from "./loop.ts"

/**
 * Runs a program to its end, and ends the process with the status that it returns. What the program throws, what a promise was rejected
 * with that nothing listens to, and that the program is not over and nothing is left to wait for: each goes to stderr, with the lines of
 * the sources that it comes from, and ends the process with 1.
 */
export function drive(program: () => Promise<number>): void {
  void program().then(leave)
  if (!engine.runJobs) return // the engine's own loop goes on, and tells what nothing catches
  try {
    for (;;) {
      engine.runJobs()
      if (!loop.isWaiting) throw new Error("Cannot go on: nothing is left to wait for")
      loop.turn()
    }
  } catch (error) {
    writeAll(STDERR, encodeUtf8(`${withFrames(error)}\n`))
    leave(1)
  }
}

const STDERR = 2 as Fd
