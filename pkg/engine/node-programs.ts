import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import type { Readable } from "node:stream"
import type { Engine, ProgramEnd, ProgramStart } from "./engine.ts"
import { LONGEST_MS } from "./web.ts"

const EINVAL = 22

/** Runs a program by child_process.spawn, in Node's event loop. */
export const startProgram: NonNullable<Engine["startProgram"]> = async (program) => {
  const { path, argv, environment, signal, timeoutMs, drainMs } = program
  if ([path, ...argv, ...environment].some((text) => text.includes("\0"))) return notStarted(EINVAL)
  const child = start(program)
  const exited = new Promise<[number | null, string | null]>((resolve) => {
    child.on("exit", (exitCode, signal) => resolve([exitCode, signal]))
  })
  try {
    if (child.pid === undefined) await once(child, "spawn") // throws the error that prevented the start
  } catch (error) {
    if (error instanceof Error && "errno" in error) return notStarted(-Number(error.errno))
    throw error
  }
  child.on("error", () => {}) // errors of a process that has already ended
  const killed = { timedOut: false, wroteTooMuch: false, stopped: false }
  let hasEnded = false
  let cancel = () => {}
  const kill = (reason: keyof typeof killed) => {
    if (Object.values(killed).includes(true)) return
    killed[reason] = true
    if (hasEnded) cancel() // the program's descendants still hold its streams
    if (hasEnded && !program.ownSession) return // the ID may already identify another process
    try {
      process.kill(program.ownSession ? -(child.pid ?? 0) : (child.pid ?? 0), "SIGKILL")
    } catch {
      // The program has ended by itself.
    }
  }
  const stop = () => kill("stopped")
  const timer =
    timeoutMs === undefined ? undefined : setTimeout(() => kill("timedOut"), Math.min(timeoutMs, LONGEST_MS))
  signal?.addEventListener("abort", stop)
  if (signal?.aborted) stop()
  try {
    const tooMuch = () => kill("wroteTooMuch")
    const streams = [
      new Collected(child.stdout, program.outputLimit, tooMuch, program.onStdout),
      new Collected(child.stderr, program.outputLimit, tooMuch, program.onStderr),
    ] as const
    cancel = () => {
      for (const stream of streams) stream.cancel()
    }
    child.stdin?.on("error", () => {}) // a program may leave its input unread
    child.stdin?.end(program.stdin)
    const [exitCode, endSignal] = await exited
    hasEnded = true
    const drain = Object.values(killed).includes(true) ? 0 : drainMs
    const drained = drain === undefined ? undefined : setTimeout(cancel, Math.min(drain, LONGEST_MS))
    await Promise.all(streams.map(({ closed }) => closed))
    clearTimeout(drained)
    const [stdout, stderr] = streams
    const ended = { exitCode: exitCode ?? undefined, signal: endSignal ?? undefined, ...killed }
    return { startError: 0, ...ended, stdout: stdout.bytes, stderr: stderr.bytes }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener("abort", stop)
  }
}

function start({ path, argv, environment, directory, stdin, ownSession }: ProgramStart) {
  const [name = path, ...args] = argv
  const split = (variable: string): [string, string] => {
    const at = variable.indexOf("=")
    return [variable.slice(0, at), variable.slice(at + 1)]
  }
  return spawn(path, args, {
    argv0: name,
    env: Object.fromEntries(environment.map(split)),
    stdio: [stdin === undefined ? "ignore" : stdin === "inherit" ? "inherit" : "pipe", "pipe", "pipe"],
    detached: ownSession,
    ...(directory === null ? {} : { cwd: directory }),
  }) as ChildProcess & { readonly stdout: Readable; readonly stderr: Readable }
}

function notStarted(startError: number): ProgramEnd & { readonly stopped: boolean } {
  const ended = { exitCode: undefined, signal: undefined, timedOut: false, wroteTooMuch: false, stopped: false }
  return { startError, ...ended, stdout: new Uint8Array(), stderr: new Uint8Array() }
}

/** Reads a stream to its end. Passes each chunk to `pass`; without `pass`, keeps the first `room` bytes. */
class Collected {
  readonly closed: Promise<void>
  readonly #stream: Readable
  readonly #chunks: Uint8Array[] = []
  #room: number

  constructor(stream: Readable, room: number, exceeded: () => void, pass?: (chunk: Uint8Array) => void) {
    this.#stream = stream
    this.#room = room
    this.closed = new Promise((resolve) => stream.on("close", () => resolve()))
    stream.on("error", () => {}) // closed by `cancel`
    stream.on("data", (chunk: Uint8Array) => {
      if (pass) return pass(chunk)
      if (chunk.length > this.#room) exceeded()
      this.#chunks.push(chunk.subarray(0, this.#room))
      this.#room = Math.max(0, this.#room - chunk.length)
    })
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#chunks)
  }

  cancel(): void {
    this.#stream.destroy()
  }
}
