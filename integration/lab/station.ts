import { mkdirSync, renameSync } from "node:fs"
import { dirname, join } from "node:path"
import { execa } from "execa"
import { compileProgram } from "./c-program.ts"
import type { Namespace } from "./namespace.ts"
import { programEnv } from "./program.ts"

/** The path of the program that runs the jobs in the namespace, see station.c. */
export const stationProgram = join(import.meta.dir, "../../dist/lab/station")

/** Compiles the station's program, and replaces the old executable atomically because other test files may run it. */
export async function buildStation(): Promise<void> {
  const built = `${stationProgram}.${process.pid}`
  mkdirSync(dirname(stationProgram), { recursive: true })
  await compileProgram(join(import.meta.dir, "station.c"), built)
  renameSync(built, stationProgram)
}

/** The resources that one or more programs used. All fields except `ms` include the programs' children. */
export interface Sample {
  /** Wall time from before the start to after the end. */
  readonly ms: number
  /** CPU time, user and system. */
  readonly cpuMs: number
  /** The largest resident set size of one process, in kilobytes. */
  readonly peakKb: number
  readonly faults: number
}

/** A program to run and measure: its arguments, whole environment and stdin. */
export interface Job {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly input: string
  /** Whether stdin is a JSON object that gets the output of the chain's previous job as `prevResult`. */
  readonly takesResult?: boolean
  /** Whether the executable's pages are dropped from the page cache before the start. */
  readonly cold?: boolean
}

export interface Outcome extends Sample {
  readonly stdout: string
  /** The error output of the failed job that ended a chain. Set only if `mayFail` is true. */
  readonly failure?: string
}

/**
 * A process that stays in a namespace and runs jobs there, so that measured times do not include entering the
 * namespace. It is a small C program (station.c), because the kernel counts a parent's peak memory as the initial peak
 * of its child.
 */
export class Station implements AsyncDisposable {
  readonly #process: ReturnType<typeof startProgram>
  readonly #output: AsyncIterator<Uint8Array>
  #unread = Buffer.alloc(0)

  private constructor(process: ReturnType<typeof startProgram>) {
    this.#process = process
    this.#output = process.stdout[Symbol.asyncIterator]()
  }

  static open(where: Namespace): Station {
    return new Station(startProgram(where))
  }

  /** Runs one job and measures it. Throws if the job fails, because the time of a failed job means nothing. */
  async time(job: Job): Promise<Outcome> {
    const { outcomes } = await this.run([[job]])
    const [[outcome] = []] = outcomes
    if (!outcome) throw new Error("The station has run nothing")
    return outcome
  }

  /**
   * Runs chains of jobs, `parallel` of them at a time. A failed job ends its chain, and throws unless `mayFail` is
   * true.
   */
  async run(
    chains: readonly (readonly Job[])[],
    parallel = 1,
    { mayFail = false } = {},
  ): Promise<{ whole: Sample; outcomes: Outcome[][] }> {
    const texts = [parallel, chains.length, ...chains.flatMap((jobs) => [jobs.length, ...jobs.flatMap(encode)])]
    const request = Buffer.from(texts.map((text) => `${text}\0`).join(""))
    this.#process.stdin.write(`${request.length}\n`)
    this.#process.stdin.write(request)
    const answer = await this.#read(Number((await this.#readLine()).toString()))
    const [ns, ...rest] = answer.toString().split("\0")
    let at = 0
    const outcomes = chains.map((jobs) => jobs.flatMap((job) => decode(job, rest.slice(7 * at, 7 * ++at)) ?? []))
    const failure = outcomes.flat().find((outcome) => outcome.failure !== undefined)?.failure
    if (failure !== undefined && !mayFail) throw new Error(failure)
    return { whole: total(outcomes.flat(), Number(ns) / 1e6), outcomes }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.stdin.end()
    await this.#process
  }

  async #more(): Promise<void> {
    const chunk = await this.#output.next()
    if (chunk.done)
      throw new Error(`The station inside the namespace has died: ${Buffer.from((await this.#process).stderr)}`)
    this.#unread = Buffer.concat([this.#unread, chunk.value])
  }

  async #read(length: number): Promise<Buffer> {
    while (this.#unread.length < length) await this.#more()
    const bytes = this.#unread.subarray(0, length)
    this.#unread = this.#unread.subarray(length)
    return bytes
  }

  async #readLine(): Promise<Buffer> {
    while (!this.#unread.includes("\n")) await this.#more()
    return this.#read(this.#unread.indexOf("\n") + 1)
  }
}

/** Encodes a job in the format that station.c reads. */
function encode({ command, env, input, takesResult, cold }: Job): (string | number)[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const end = input.lastIndexOf("}")
  const parts = takesResult ? [`${input.slice(0, end)},"prevResult":`, 1, "}"] : [input, 0, ""]
  return [cold ? 1 : 0, command.length, ...command, variables.length, ...variables, ...parts]
}

/** Decodes the result of a job. Returns undefined for a job that did not run because an earlier job failed. */
function decode(job: Job, texts: readonly string[]): Outcome | undefined {
  const [ns = 0, cpuUs = 0, peakKb = 0, faults = 0, exitCode = -1] = texts.slice(0, 5).map(Number)
  const [stdout = "", stderr = ""] = texts.slice(5)
  if (exitCode === -1) return undefined
  const outcome = { ms: ns / 1e6, cpuMs: cpuUs / 1e3, peakKb, faults, stdout }
  if (exitCode === 0) return outcome
  return { ...outcome, failure: `"${job.command.join(" ")}" failed (${exitCode}): ${stdout}${stderr}` }
}

function startProgram(where: Namespace) {
  const [file = "", ...args] = where.commandLine([stationProgram])
  return execa(file, args, {
    env: programEnv,
    extendEnv: false,
    stdin: "pipe",
    encoding: "buffer",
    buffer: { stdout: false },
    reject: false,
  })
}

/**
 * Adds up the resources of programs that ran in sequence. For concurrent programs, pass their total wall time as `ms`.
 */
export function total(samples: readonly Sample[], ms = sum(samples.map((sample) => sample.ms))): Sample {
  return {
    ms,
    cpuMs: sum(samples.map(({ cpuMs }) => cpuMs)),
    peakKb: Math.max(...samples.map(({ peakKb }) => peakKb)),
    faults: sum(samples.map(({ faults }) => faults)),
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0)
}
