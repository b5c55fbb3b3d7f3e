import { join } from "node:path"
import { execa } from "execa"
import { parseTestCases, type TestCase } from "./test-cases.ts"
import { parseTotals, type Totals } from "./totals.ts"

/** How long one test, and all tests of one run together, may take. */
export interface Limits {
  readonly testMs: number
  readonly fileMs: number
}

/** Runs the steps of a test run, shows them, and counts. */
export class Runner {
  readonly #root: string
  readonly #reports: string
  readonly #show: 1 | 2
  #passed = 0
  #failed = 0
  #runs = 0
  readonly #failures: string[] = []
  readonly #testCases: TestCase[] = []

  /**
   * `root` is the directory that the programs run in, `reports` an empty one for the reports of `bun test`; `show` is
   * where everything is shown, stdout or stderr.
   */
  constructor(root: string, reports: string, show: 1 | 2 = 1) {
    this.#root = root
    this.#reports = reports
    this.#show = show
  }

  /** The tests that have run so far. */
  get testCases(): readonly TestCase[] {
    return this.#testCases
  }

  /** Runs a program; anything but exit code 0 counts as one failure. Answers whether it succeeded. */
  async step(title: string, command: readonly string[], limitMs?: number): Promise<boolean> {
    const succeeded = (await this.#run(title, command, { timeout: limitMs, live: true })).exitCode === 0
    if (!succeeded) this.fail(`${title} failed`)
    return succeeded
  }

  /** Runs test files with one `bun test` and counts what its report says. */
  async tests(title: string, files: readonly string[], limits: Limits): Promise<void> {
    const reportFile = join(this.#reports, `${++this.#runs}.xml`)
    const options = [`--timeout=${limits.testMs}`, "--reporter=junit", `--reporter-outfile=${reportFile}`]
    const command = [process.execPath, "test", ...options, ...files]
    const { exitCode, output } = await this.#run(title, command, { timeout: limits.fileMs, live: false })
    const report = await readReport(reportFile)
    const totals: Totals = report === undefined ? { passed: 0, failed: 0, skipped: 0 } : parseTotals(report)
    this.#testCases.push(...parseTestCases(report ?? ""))
    this.#passed += totals.passed
    this.#failed += totals.failed + totals.skipped
    if (totals.failed > 0) this.#failures.push(`${title}: ${totals.failed} failed`, ...failedTests(output))
    if (totals.skipped > 0) this.#failures.push(`${title}: ${totals.skipped} skipped, which counts as failed`)
    if (exitCode !== 0 && totals.failed === 0) this.fail(`${title} ended with ${exitCode ?? "a timeout or a signal"}`)
  }

  /**
   * Runs each test file with a `bun test` of its own, `lanes` of them at a time: a test in namespaces waits for the kernel more
   * than it computes.
   */
  async eachFile(files: readonly string[], limits: Limits, lanes: number): Promise<void> {
    const waiting = [...files]
    const work = async () => {
      for (let file = waiting.shift(); file !== undefined; file = waiting.shift())
        await this.tests(file, [file], limits)
    }
    await Promise.all(Array.from({ length: lanes }, work))
  }

  /** Counts one failure that is not a test's, and says why. */
  fail(reason: string): void {
    this.#failed++
    this.#failures.push(reason)
  }

  /**
   * Prints what failed, the line `summary` if there is one, and the last line. Answers the exit code: 0 only when tests
   * ran and nothing failed.
   */
  finish(summary?: string): number {
    if (this.#passed + this.#failed === 0) this.fail("No test ran")
    this.#print("")
    for (const failure of this.#failures) this.#print(failure)
    if (summary !== undefined) this.#print(summary)
    this.#print(`${this.#passed} passed, ${this.#failed} failed`)
    return this.#failed === 0 ? 0 : 1
  }

  #print(line: string): void {
    if (this.#show === 1) console.log(line)
    else console.error(line)
  }

  /** Shows what the program prints as it comes (`live`), or whole when it has ended. */
  async #run(title: string, command: readonly string[], { timeout = 300_000, live }: Running): Promise<Ended> {
    const [file = "", ...args] = command
    const shown = command.map((word) => word.replace(`${this.#root}/`, "")).filter((word) => !word.startsWith("--rep"))
    const heading = `\n==> ${title}: ${shown.join(" ")}`
    if (live) this.#print(heading)
    const result = await execa(file, args, {
      cwd: this.#root,
      stdin: "ignore",
      stdout: live ? [this.#show, "pipe"] : "pipe",
      stderr: live ? ["inherit", "pipe"] : "pipe",
      all: true,
      reject: false,
      timeout,
      killSignal: "SIGKILL",
    })
    if (!live) this.#print(`${heading}\n${result.all}`)
    return { exitCode: result.exitCode, output: result.all }
  }
}

/** How long a program may take, in milliseconds, and when its output is shown. */
interface Running {
  timeout: number | undefined
  live: boolean
}

/** How a program ended, and all that it printed. */
interface Ended {
  exitCode: number | undefined
  output: string
}

/** What `bun test` printed of each test that failed, to be read again at the end of a long run. */
function failedTests(output: string): string[] {
  const told: string[] = []
  let lines: string[] = []
  for (const line of output.split("\n")) {
    lines.push(line)
    if (line.startsWith("(fail)")) told.push(lines.slice(-60).join("\n"))
    if (/^\((fail|pass|skip|todo)\)/.test(line) || line.endsWith(".test.ts:")) lines = []
  }
  return told
}

/** What a run of `bun test` reported; nothing when it died before it could. */
async function readReport(path: string): Promise<string | undefined> {
  const file = Bun.file(path)
  return (await file.exists()) ? await file.text() : undefined
}
