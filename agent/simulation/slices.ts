import { writeSync } from "node:fs"
import { availableParallelism } from "node:os"
import { runSchedules, type Verdict } from "./schedule.ts"
import { engine } from "./subject.ts"

/** So many schedules one process runs, before another one takes its place: a new one has to compile the engine, and an old one has much memory. */
const SLICE = 20_000

/** After so many schedules a process says how far it has come. */
const STEP = 1_000

/** Progress of a process: the first seed that it has not run, or the schedule that broke a promise. */
interface Progress {
  readonly next: number
  readonly broken?: Verdict
}

/**
 * Runs schedules of the engine as it is shipped, by as many processes at once as there are processors; answers the first broken one that is
 * found. `tell` hears of each seed up to which all schedules have held: a run that is interrupted can go on from there.
 */
export async function runInProcesses(
  first: number,
  count: number,
  tell: (next: number) => void = () => {},
): Promise<Verdict | undefined> {
  const end = first + count
  const running = new Map<number, number>() // the slices by their first seed, and how far each has come
  const processes = availableParallelism()
  const slice = Math.min(SLICE, Math.ceil(count / processes))
  let next = first
  let broken: Verdict | undefined
  let told = first
  const work = async () => {
    while (next < end && !broken) {
      const from = next
      next = Math.min(from + slice, end)
      running.set(from, from)
      for await (const progress of runSlice(from, next - from)) {
        running.set(from, progress.next)
        broken ??= progress.broken
        if (broken) return
        const reached = Math.min(next, ...running.values())
        if (reached > told) tell(reached)
        told = Math.max(told, reached)
      }
      running.delete(from)
    }
  }
  await Promise.all(Array.from({ length: processes }, work))
  return broken
}

async function* runSlice(first: number, count: number): AsyncGenerator<Progress> {
  const command = [process.execPath, import.meta.path, String(first), String(count)]
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "inherit" })
  try {
    let text = ""
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (text + part).split("\n")
      text = lines.pop() ?? ""
      for (const line of lines) yield JSON.parse(line)
    }
    const end = await child.exited
    if (end !== 0) throw new Error(`Cannot run the schedules from ${first} on: the process ended with ${end}`)
  } finally {
    child.kill()
  }
}

/** The process of a slice: prints lines of `Progress`. It ends with the process that reads them, since writing fails then. */
async function main([first = 0, count = 0]: readonly number[]): Promise<void> {
  const end = first + count
  for (let next = first; next < end; ) {
    const broken = await runSchedules(next, Math.min(STEP, end - next), engine)
    next = Math.min(next + STEP, end)
    writeSync(1, `${JSON.stringify({ next, ...(broken && { broken }) } satisfies Progress)}\n`)
    if (broken) return
  }
}

if (import.meta.main) await main(process.argv.slice(2).map(Number))
