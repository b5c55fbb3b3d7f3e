import { availableParallelism } from "node:os"
import { runSchedules, type Verdict } from "./schedule.ts"
import { engine } from "./subject.ts"

/** So many schedules one process runs, before another one takes its place. */
export const SLICE = 20_000

/** Runs schedules of the engine as it is shipped, by as many processes at once as there are processors; answers the first broken one that is found. */
export async function runInProcesses(first: number, count: number): Promise<Verdict | undefined> {
  let next = 0
  let broken: Verdict | undefined
  const work = async () => {
    while (next < count && !broken) {
      const from = next
      next += SLICE
      const found = await runSlice(first + from, Math.min(SLICE, count - from))
      broken ??= found
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  return broken
}

async function runSlice(first: number, count: number): Promise<Verdict | undefined> {
  const command = [process.execPath, import.meta.path, String(first), String(count)]
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "inherit" })
  const told = await new Response(child.stdout).text()
  const end = await child.exited
  if (end !== 0) throw new Error(`Cannot run the schedules from ${first} on: the process ended with ${end}`)
  return told === "" ? undefined : JSON.parse(told)
}

/** The process of a slice: prints the broken schedule as JSON, if there is one. */
async function main([first, count]: readonly string[]): Promise<void> {
  const broken = await runSchedules(Number(first), Number(count), engine)
  if (broken) console.log(JSON.stringify(broken))
}

if (import.meta.main) await main(process.argv.slice(2))
