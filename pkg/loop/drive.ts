import { encodeUtf8, engine, withFrames } from "../engine/mod.ts"
import { type Fd, writeAll } from "../libc/mod.ts"
import { leave } from "./leave.ts"
import { loop } from "./loop.ts"

/**
 * Runs an asynchronous program, and ends the process with the exit status that it returns. An exception, an unhandled
 * rejection, or a program that waits for nothing is printed to stderr with source lines, and ends the process with
 * status 1.
 */
export function drive(program: () => Promise<number>): void {
  void program().then(leave)
  if (!engine.runJobs) return // the engine's event loop continues, and reports uncaught errors
  try {
    for (;;) {
      engine.runJobs()
      if (!loop.isWaiting) throw new Error("Cannot continue: nothing is left to wait for")
      loop.turn()
    }
  } catch (error) {
    writeAll(STDERR, encodeUtf8(`${withFrames(error)}\n`))
    leave(1)
  }
}

const STDERR = 2 as Fd
