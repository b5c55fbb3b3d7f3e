import { engine } from "../engine/mod.ts"
import { check } from "./errno.ts"
import { runWithPipes, type Spawn, type Spawned } from "./spawn-pipes.ts"

export type { Spawn, Spawned }

/**
 * Runs a program to its end, without a shell: until it has ended and both of its output streams are closed, by its
 * descendants too. Throws `SyscallError` when it cannot be started; `ENOENT`, `EACCES`, `ENOEXEC` and `ETXTBSY` are about
 * the file.
 */
export function spawn(program: Spawn): Spawned {
  const { path, args = [], cwd: directory = null } = program
  const argv = [program.name ?? path, ...args]
  const environment = Object.entries(program.env).map(([name, value]) => `${name}=${value}`)
  if (!engine.runProgram) return runWithPipes(program, argv, environment)
  const { stdin, timeoutMs, outputLimit } = program
  const run = { path, argv, environment, directory, stdin, timeoutMs, outputLimit }
  const { startError, ...ended } = engine.runProgram(run)
  check("execve", JSON.stringify(path), () => -startError)
  return ended
}
