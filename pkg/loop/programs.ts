import { engine } from "../engine/mod.ts"
import { check, execveTexts, type Program, Running, type Spawned } from "../libc/mod.ts"
import { readyOf } from "./loop.ts"

/** The exit status and output of a program that has ended. `stopped` is true if the signal aborted before its end. */
export type Ended = Spawned & { readonly stopped: boolean }

/** Like `spawn`, in the event loop. Kills the program when the signal aborts. Throws `SyscallError` without a start. */
export async function runProgram(program: Program, signal?: AbortSignal): Promise<Ended> {
  if (engine.startProgram) return runBy(engine.startProgram, program, signal)
  using running = new Running(program)
  let stopped = false
  while (!running.isOver) {
    const until = { timeoutMs: running.leftMs, signal: stopped ? undefined : signal }
    running.serve(await readyOf(running.requests, until))
    if (!signal?.aborted || stopped || running.isOver) continue
    stopped = true
    running.stop()
  }
  return { ...running.end(), stopped }
}

/** Runs a program on a back end that starts programs and waits for them itself. */
async function runBy(
  start: NonNullable<typeof engine.startProgram>,
  program: Program,
  signal: AbortSignal | undefined,
): Promise<Ended> {
  const { path, cwd: directory = null, stdin, timeoutMs, outputLimit, ownSession = false, drainMs } = program
  const { onStdout, onStderr } = program
  const run = { path, ...execveTexts(program), directory, stdin, timeoutMs, outputLimit, ownSession, drainMs }
  const { startError, ...ended } = await start({ ...run, onStdout, onStderr, signal })
  check("execve", JSON.stringify(path), () => -startError)
  return ended
}
