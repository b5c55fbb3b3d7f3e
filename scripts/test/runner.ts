import { join } from "node:path"
import { execa } from "execa"
import { parseTotals, type Totals } from "./totals.ts"

/** How long one test, and all tests of one run together, may take. */
export interface Limits {
  readonly testMs: number
  readonly fileMs: number
}

/** Runs the steps of a test run one after the other, shows them, and counts. */
export class Runner {
  readonly #root: string
  readonly #reports: string
  #passed = 0
  #failed = 0
  #runs = 0
  readonly #failures: string[] = []

  /** `root` is the directory that the programs run in, `reports` an empty one for the reports of `bun test`. */
  constructor(root: string, reports: string) {
    this.#root = root
    this.#reports = reports
  }

  /** Runs a program; anything but exit code 0 counts as one failure. Answers whether it succeeded. */
  async step(title: string, command: readonly string[]): Promise<boolean> {
    const succeeded = (await this.#run(title, command)) === 0
    if (!succeeded) this.fail(`${title} failed`)
    return succeeded
  }

  /** Runs test files with `bun test` and counts what its report says. */
  async tests(title: string, files: readonly string[], limits: Limits): Promise<void> {
    const report = join(this.#reports, `${++this.#runs}.xml`)
    const options = [`--timeout=${limits.testMs}`, "--reporter=junit", `--reporter-outfile=${report}`]
    const exitCode = await this.#run(title, [process.execPath, "test", ...options, ...files], limits.fileMs)
    const totals = await readTotals(report)
    this.#passed += totals.passed
    this.#failed += totals.failed + totals.skipped
    if (totals.failed > 0) this.#failures.push(`${title}: ${totals.failed} failed`)
    if (totals.skipped > 0) this.#failures.push(`${title}: ${totals.skipped} skipped, which counts as failed`)
    if (exitCode !== 0 && totals.failed === 0) this.fail(`${title} ended with ${exitCode ?? "a timeout or a signal"}`)
  }

  /** Counts one failure that is not a test's, and says why. */
  fail(reason: string): void {
    this.#failed++
    this.#failures.push(reason)
  }

  /** Prints what failed and the last line, and answers the exit code: 0 only when tests ran and nothing failed. */
  finish(): number {
    if (this.#passed + this.#failed === 0) this.fail("No test ran")
    console.log("")
    for (const failure of this.#failures) console.log(failure)
    console.log(`${this.#passed} passed, ${this.#failed} failed`)
    return this.#failed === 0 ? 0 : 1
  }

  async #run(title: string, command: readonly string[], timeout = 300_000): Promise<number | undefined> {
    const [file = "", ...args] = command
    const shown = command.map((word) => word.replace(`${this.#root}/`, "")).filter((word) => !word.startsWith("--rep"))
    console.log(`\n==> ${title}: ${shown.join(" ")}`)
    const result = await execa(file, args, {
      cwd: this.#root,
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
      reject: false,
      timeout,
      killSignal: "SIGKILL",
    })
    return result.exitCode
  }
}

/** What a run of `bun test` reported; nothing when it died before it could. */
async function readTotals(report: string): Promise<Totals> {
  const file = Bun.file(report)
  return (await file.exists()) ? parseTotals(await file.text()) : { passed: 0, failed: 0, skipped: 0 }
}
