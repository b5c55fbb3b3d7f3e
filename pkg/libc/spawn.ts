import { engine } from "../engine/mod.ts"
import { check } from "./errno.ts"
import { execveTexts, Running, type Spawn, type Spawned } from "./running.ts"
import { pollAll } from "./service.ts"

/**
 * Runs a program to its end, without a shell: until it has ended and both of its output streams are closed, by its
 * descendants too. Throws `SyscallError` when it cannot be started; `ENOENT`, `EACCES`, `ENOEXEC` and `ETXTBSY` are
 * about the file.
 */
export function spawn(program: Spawn): Spawned {
  if (!engine.runProgram) return runHere(program)
  const { path, cwd: directory = null, stdin, timeoutMs, outputLimit } = program
  const run = { path, ...execveTexts(program), directory, stdin, timeoutMs, outputLimit }
  const { startError, ...ended } = engine.runProgram(run)
  check("execve", { path }, () => -startError)
  return ended
}

/** Where the back end starts processes. */
function runHere(program: Spawn): Spawned {
  using running = new Running(program)
  while (!running.isOver) running.serve(pollAll(running.requests, running.leftMs))
  return running.end()
}
