import { appendFile, mkdir, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { execa } from "execa"
import { leftOutTests } from "../../integration/lab/mod.ts"
import {
  type Attempt,
  attempt,
  count,
  explain,
  failuresOf,
  filesToRepeat,
  isGood,
  type Limits,
  mended,
} from "./attempt.ts"
import type { TestCase } from "./test-cases.ts"

export interface Place {
  /** The working directory of programs. */
  readonly root: string
  /** An empty directory for the JUnit reports. */
  readonly reports: string
  /** The path of the log with the tests' output. */
  readonly log: string
  /** The stream for lines about steps: 1 is stdout, 2 is stderr. */
  readonly show?: 1 | 2
  /** Whether a failed file runs once more, alone. If the file passes then, it is reported as flaky. */
  readonly retry?: boolean
}

/** Test files that failed at first. */
interface Doubtful {
  readonly title: string
  readonly files: readonly string[]
  readonly limits: Limits
  readonly first: Attempt
}

/** The number of failed files above which none runs again, because so many failures are not chance. */
const mostDoubtful = 10

/** The number of files in the final lists of the files that took the most time and the most CPU time. */
const slowest = 20

/** Runs steps, prints a line with each outcome, and counts failures. The tests' output is written to the log. */
export class Runner {
  readonly #place: Place
  readonly #failures: string[] = []
  readonly #flaky: string[] = []
  readonly #testCases: TestCase[] = []
  readonly #times: { title: string; seconds: number; cpuSeconds: number }[] = []
  /** The number of tests that were skipped because the kernel lacks a feature, by feature. */
  readonly #leftOut = new Map<string, number>()
  readonly #summary: string[] = []
  #failed = 0
  #runs = 0

  constructor(place: Place) {
    this.#place = place
  }

  get testCases(): readonly TestCase[] {
    return this.#testCases
  }

  /** Runs a program and shows its output. Any exit code but 0 counts as one failure. Returns whether it succeeded. */
  async step(title: string, command: readonly string[], limitMs = 1_800_000): Promise<boolean> {
    const { root, show = 1 } = this.#place
    const [file = "", ...args] = command
    this.#print(`==> ${title}: ${command.map((word) => word.replace(`${root}/`, "")).join(" ")}`)
    const { exitCode } = await execa(file, args, {
      cwd: root,
      stdin: "ignore",
      stdout: show === 1 ? "inherit" : process.stderr,
      stderr: "inherit",
      reject: false,
      timeout: limitMs,
      killSignal: "SIGKILL",
    })
    if (exitCode !== 0) this.fail(`${title} failed`)
    return exitCode === 0
  }

  /**
   * Runs each group with its own `bun test`, `lanes` at once, because tests in namespaces mostly wait for the kernel.
   */
  async tests(groups: readonly (readonly string[])[], limits: Limits, lanes: number): Promise<void> {
    const waiting = [...groups]
    const doubtful: Doubtful[] = []
    let ended = 0
    const work = async () => {
      for (let files = waiting.shift(); files !== undefined; files = waiting.shift()) {
        const first = await this.#attempt(files, limits)
        const title = titleOf(files)
        this.#times.push({ title, seconds: first.seconds, cpuSeconds: first.cpuSeconds })
        this.#print(lineOf(`file ${++ended} of ${groups.length}: ${title}`, first))
        if (isGood(first)) this.#keep(first)
        else doubtful.push({ title, files, limits, first })
      }
    }
    await Promise.all(Array.from({ length: lanes }, work))
    await this.#settle(doubtful)
  }

  /** Adds a line to print before the last line. */
  summarize(line: string): void {
    this.#summary.push(line)
  }

  /** Counts one failure that is not a test, and prints its reason. */
  fail(reason: string): void {
    this.#failed++
    this.#failures.push(reason)
  }

  /**
   * Prints times, failures, and the last line. Returns the exit code: 0 only if tests ran and no failure was counted.
   */
  finish(): number {
    const passed = count(this.#testCases, "passed")
    if (passed + this.#failed === 0) this.fail("No test ran")
    this.#printTimes()
    for (const [feature, tests] of this.#leftOut)
      this.#print(`not on this kernel, without ${feature}: ${tests} tests, which npm run test:vm runs`)
    this.#print(`What the tests printed is in ${this.#place.log}`)
    for (const line of [...this.#flaky, ...this.#failures]) this.#print(line)
    for (const line of this.#summary) this.#print(line)
    this.#print(`${passed} passed, ${this.#failed} failed`)
    return this.#failed === 0 ? 0 : 1
  }

  async #attempt(files: readonly string[], limits: Limits): Promise<Attempt> {
    const { root, reports, log } = this.#place
    const one = await attempt(root, join(reports, `${++this.#runs}.xml`), files, limits)
    await appendFile(log, `\n==> bun test ${files.join(" ")}\n${one.output}\n`)
    return one
  }

  /**
   * Counts failures. With `retry` a failed file runs again, alone; both runs are reported, only the second is counted.
   */
  async #settle(doubtful: readonly Doubtful[]): Promise<void> {
    const mayRetry = this.#place.retry === true && doubtful.length <= mostDoubtful
    for (const { title, files, limits, first } of doubtful) {
      if (!mayRetry) {
        this.#count(title, first)
        continue
      }
      const again = filesToRepeat(files, first)
      this.#print(`==> once more, alone: ${again.join(" ")}`)
      const second = await this.#attempt(again, limits)
      this.#print(lineOf(title, second))
      const whole = mended(first, again, second)
      if (isGood(whole)) {
        this.#keep(whole)
        this.#flaky.push(...explain(`FLAKY: ${title}`, first), `FLAKY: once more, alone: ${lineOf(title, second)}`)
      } else {
        this.#count(`${title}, also alone`, whole)
        this.#failures.push(...explain(`${title}, at first`, first))
      }
    }
  }

  #count(title: string, one: Attempt): void {
    this.#keep(one)
    this.#failed += failuresOf(one)
    this.#failures.push(...explain(title, one))
  }

  #keep({ cases, output }: Attempt): void {
    this.#testCases.push(...cases)
    for (const { missing } of leftOutTests(output))
      for (const feature of missing) this.#leftOut.set(feature, (this.#leftOut.get(feature) ?? 0) + 1)
  }

  #printTimes(): void {
    if (this.#times.length <= 2) return
    for (const [title, key] of [
      ["The slowest files", "seconds"],
      ["The files with the most processor time", "cpuSeconds"],
    ] as const) {
      this.#print(`${title}:`)
      for (const { title: file, [key]: seconds } of this.#times.toSorted((a, b) => b[key] - a[key]).slice(0, slowest))
        this.#print(`  ${seconds.toFixed(0).padStart(4)} s ${file}`)
    }
  }

  #print(line: string): void {
    if (this.#place.show === 2) console.error(line)
    else console.log(line)
  }
}

function titleOf([first = "", ...others]: readonly string[]): string {
  return others.length === 0 ? first : `${first} and ${others.length} more`
}

function lineOf(title: string, one: Attempt): string {
  const failed = isGood(one) ? "" : `, ${failuresOf(one)} FAILED`
  return `${title}: ${count(one.cases, "passed")} passed${failed}, ${one.seconds.toFixed(1)} s, ${one.cpuSeconds.toFixed(1)} s of a processor`
}

/** Creates an empty log, even if root created the previous one. */
export async function emptyLog(log: string): Promise<void> {
  await mkdir(dirname(log), { recursive: true })
  await rm(log, { force: true })
  await writeFile(log, "")
}
