import { engine } from "../engine/mod.ts"
import { type Fd, Poll, type Program, processId, programArguments, readDirectory, writeAll } from "../libc/mod.ts"
import { anyOf, drive, every, newStop, onSignal, ready, readyOf, runProgram, sleep } from "./mod.ts"

type Json = null | undefined | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

export type LoopCase = readonly [name: string, run: () => Promise<Json>, expected: Json]

const far = 60_000
const SIGUSR2 = 12
const text = (bytes: Uint8Array) => engine.decodeUtf8(bytes)

function pipe(): [Fd, Fd] {
  const pair = new Int32Array(2)
  engine.pipe2(pair, 0o2000000)
  return [pair[0] as Fd, pair[1] as Fd]
}

async function sh(script: string, more: Partial<Program> = {}, signal?: AbortSignal): Promise<Json> {
  const all = { path: "/bin/sh", args: ["-c", script], env: { PATH: "/usr/bin:/bin" }, outputLimit: 1 << 20 }
  const { stdout, stderr, ...ended } = await runProgram({ ...all, ...more }, signal)
  const set = Object.entries(ended).filter(([, value]) => value !== undefined && value !== false)
  return { ...Object.fromEntries(set), stdout: text(stdout), stderr: text(stderr) }
}

/** Returns a signal that aborts at the first chunk of a program's output. */
function stopAtOutput(): { readonly signal: AbortSignal; readonly onStderr: () => void } {
  const stop = newStop()
  return { signal: stop.signal, onStderr: () => stop.abort() }
}

const killed = { signal: "SIGKILL", stdout: "", stderr: "" }

/** Cases with the same result on every engine. */
export const loopCases: readonly LoopCase[] = [
  [
    "waits end in the order of their times, not of their starts",
    async () => {
      const events: Json[] = []
      const wait = async (ms: number) => {
        await sleep(ms)
        events.push(ms)
      }
      await Promise.all([wait(500), wait(150), wait(0), wait(300)])
      return events
    },
    [0, 150, 300, 500],
  ],
  [
    "a wait ends when it is told to stop, at once when that was before",
    async () => {
      const stop = newStop()
      const wait = sleep(far, stop.signal)
      stop.abort()
      await wait
      await sleep(far, stop.signal)
      return "ended"
    },
    "ended",
  ],
  [
    "a wait of more than 24 days has not ended at once",
    async () => {
      const stop = newStop()
      let isOver = false
      const wait = sleep(2 ** 40, stop.signal).then(() => {
        isOver = true
      })
      await sleep(20)
      const before = isOver
      stop.abort()
      await wait
      return [before, isOver]
    },
    [false, true],
  ],
  [
    "something is done again and again until it is disposed of",
    async () => {
      let count = 0
      {
        using _ = every(1, () => count++)
        while (count < 3) await sleep(1)
      }
      const before = count
      await sleep(10)
      return [before >= 3, count - before]
    },
    [true, 0],
  ],
  [
    "a signal that says stop tells all who listen once, with the reason; those of several are one",
    async () => {
      const [one, two] = [newStop(), newStop()]
      const reasons: Json[] = []
      const both = anyOf(one.signal, undefined, two.signal)
      both.signal.addEventListener("abort", () => reasons.push(String(both.signal.reason)))
      const gone = () => reasons.push("removed")
      both.signal.addEventListener("abort", gone)
      both.signal.removeEventListener("abort", gone)
      two.abort("second")
      one.abort("first")
      const disposed = anyOf(newStop().signal, one.signal)
      const third = newStop()
      const off = anyOf(third.signal)
      off[Symbol.dispose]()
      third.abort()
      return [reasons, both.signal.aborted, String(disposed.signal.reason), off.signal.aborted]
    },
    [["second"], true, "first", false],
  ],
  [
    "a signal is reported, and the process goes on",
    async () => {
      let signals = 0
      using _ = onSignal(SIGUSR2, () => signals++)
      engine.kill(processId(), SIGUSR2)
      while (signals === 0) await sleep(1)
      return signals
    },
    1,
  ],
]

export const programCases: readonly LoopCase[] = [
  [
    "exit code and both streams of a program, and its stdin",
    () => sh("cat; echo err >&2; exit 3", { stdin: engine.encodeUtf8("in") }),
    { exitCode: 3, stdout: "in", stderr: "err\n" },
  ],
  [
    "programs run while others do",
    async () => {
      let [first, second] = ["", ""]
      const until = (isSo: () => boolean) => sleep(isSo() ? 0 : 1)
      const slow = sh("cat", { ownSession: true, timeoutMs: far, stdin: engine.encodeUtf8("slow") })
      const fast = sh("echo fast")
      await Promise.all([slow, fast, until(() => first !== second)])
      ;[first, second] = [JSON.stringify(await slow), JSON.stringify(await fast)]
      return [first.includes("slow"), second.includes("fast")]
    },
    [true, true],
  ],
  ["a program that does not exist", () => sh("", { path: "/absent" }).catch((error) => error.errno), "ENOENT"],
  ["a program past its time", () => sh("exec sleep 60", { timeoutMs: 20 }), { ...killed, timedOut: true }],
  [
    "a program that writes too much",
    () => sh("echo 12345; exec sleep 60", { outputLimit: 4 }),
    { ...killed, wroteTooMuch: true, stdout: "1234" },
  ],
  [
    "what gets the pieces of a stream gets all of it, without limit",
    async () => {
      const pieces: string[] = []
      const ended = await sh("echo 12345; echo 6789 >&2", {
        outputLimit: 6,
        onStdout: (chunk) => pieces.push(text(chunk)),
      })
      return [pieces.join(""), ended]
    },
    ["12345\n", { exitCode: 0, stdout: "", stderr: "6789\n" }],
  ],
  [
    "a program that is told to stop is killed, in its own session with what it has started",
    async () => {
      const { signal, onStderr } = stopAtOutput()
      return sh("sleep 60 & echo started >&2; wait", { ownSession: true, onStderr }, signal)
    },
    { ...killed, stopped: true },
  ],
  [
    "one that is told to stop before it starts is killed",
    async () => {
      const stop = newStop()
      stop.abort()
      return sh("exec sleep 60", { ownSession: true }, stop.signal)
    },
    { ...killed, stopped: true },
  ],
  [
    "a descendant that keeps the streams open is waited for no longer than said",
    async () => {
      const ended = await sh("sleep 60 & echo $!", { drainMs: 10 })
      const { stdout } = ended as { stdout: string }
      return [engine.kill(Number(stdout), 9), { ...(ended as object), stdout: "" }]
    },
    [0, { exitCode: 0, stdout: "", stderr: "" }],
  ],
  [
    "a descendant that keeps the streams open is waited for until the time is up",
    async () => {
      const ended = await sh("sleep 60 & echo $!", { timeoutMs: 500 })
      const { stdout } = ended as { stdout: string }
      return [engine.kill(Number(stdout), 9), { ...(ended as object), stdout: "" }]
    },
    [0, { exitCode: 0, timedOut: true, stdout: "", stderr: "" }],
  ],
  [
    "a limit of more than 24 days",
    () => sh("sleep 0.02; echo out", { timeoutMs: 2 ** 40, drainMs: 2 ** 40 }),
    { exitCode: 0, stdout: "out\n", stderr: "" },
  ],
  [
    "our own stdin",
    () => sh("readlink /proc/self/fd/0 >/dev/null", { stdin: "inherit" }),
    { exitCode: 0, stdout: "", stderr: "" },
  ],
]

/** Cases that wait for descriptors, which Node cannot do. */
export const descriptorCases: readonly LoopCase[] = [
  [
    "a descriptor is ready when there is something to read, and hung up at the end",
    async () => {
      const [reading, writing] = pipe()
      const before = await ready(reading, Poll.In, { timeoutMs: 5 })
      const soon = ready(reading, Poll.In)
      writeAll(writing, Uint8Array.of(1))
      const after = [await soon, await ready(reading, Poll.In, { timeoutMs: 0 })]
      engine.read(reading, new Uint8Array(1))
      engine.close(writing)
      return [before, ...after, await ready(reading, Poll.In), engine.close(reading)]
    },
    [0, 1, 1, 16, 0],
  ],
  [
    "of several descriptors those that are ready",
    async () => {
      const [one, two] = [pipe(), pipe()]
      writeAll(two[1], Uint8Array.of(1))
      const events = Poll.In
      const found = await readyOf(
        [one[0], two[0], two[1]].map((fd, at) => ({ fd, events: at === 2 ? Poll.Out : events })),
      )
      for (const fd of [...one, ...two]) engine.close(fd)
      return [...found]
    },
    [0, 1, 4],
  ],
  [
    "a wait for a descriptor ends when it is told to stop",
    async () => {
      const [reading, writing] = pipe()
      const stop = newStop()
      const wait = ready(reading, Poll.In, { signal: stop.signal })
      await sleep(1)
      stop.abort()
      const found = [await wait, await ready(reading, Poll.In, { signal: stop.signal })]
      return [...found, engine.close(reading), engine.close(writing)]
    },
    [0, 0, 0, 0],
  ],
]

const allCases = [...loopCases, ...programCases, ...descriptorCases]

/** Runs the cases one after the other and returns their results. */
export async function answers(cases: readonly LoopCase[]): Promise<Json[]> {
  const found: Json[] = []
  for (const [, run] of cases) found.push(await run().catch(String))
  return found
}

/**
 * Runs a task on the current engine. The task `cases` prints the results of all cases and the number of leaked
 * descriptors. The other tasks test how the process ends.
 */
export function run(): void {
  const tasks: Readonly<Record<string, () => Promise<number>>> = {
    cases: async () => {
      const before = readDirectory("/proc/self/fd").length
      const found = await answers(allCases)
      const left = readDirectory("/proc/self/fd").length - before
      const childless = engine.wait4(-1, new Int32Array(1), 1) === -10 // ECHILD
      writeAll(1 as Fd, engine.encodeUtf8(JSON.stringify({ found, left, childless })))
      return 7
    },
    stuck: () => new Promise<number>(() => every(1, () => {})),
    fails: () => Promise.reject(new Error("the program's own")),
    "fails aside": async () => {
      void Promise.reject(new Error("aside"))
      await sleep(far)
      return 0
    },
  }
  const task = tasks[programArguments()[0] ?? ""]
  if (task) drive(task)
}

export const allLoopCases = allCases

if (import.meta.main) run()
