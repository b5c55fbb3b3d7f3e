import { engine } from "../engine/mod.ts"
import { check } from "./errno.ts"
import { execveTexts, Running, type Spawn, type Spawned } from "./running.ts"
import { pollAll } from "./service.ts"

/**
 * Runs a program without a shell. Waits until the program has ended, and until it and all its descendants have closed
 * both output streams. Throws `SyscallError` if the program cannot be started; `ENOENT`, `EACCES`, `ENOEXEC` and
 * `ETXTBSY` concern its file.
 */
export function spawn(program: Spawn): Spawned {
  if (!engine.runProgram) return runHere(program)
  const { path, cwd: directory = null, stdin, timeoutMs, outputLimit } = program
  const run = { path, ...execveTexts(program), directory, stdin, timeoutMs, outputLimit }
  const { startError, ...ended } = engine.runProgram(run)
  check("execve", { path }, () => -startError)
  return ended
}

/** Runs a program on an engine whose `startProcess` works. */
function runHere(program: Spawn): Spawned {
  using running = new Running(program)
  while (!running.isOver) running.serve(pollAll(running.requests, running.leftMs))
  return running.end()
}
