import { closeSync, openSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { parseTestCases, type TestCase } from "./test-cases.ts"

/** The time limits of one test and of one run of all its tests, in milliseconds. */
export interface Limits {
  readonly testMs: number
  readonly fileMs: number
}

export interface Attempt {
  readonly cases: readonly TestCase[]
  /** Undefined if a signal or the time limit ended the run. */
  readonly exitCode: number | undefined
  readonly output: string
  readonly seconds: number
  /** The CPU time of all processes of the run. */
  readonly cpuSeconds: number
}

/** Runs test files with one `bun test`, which writes its JUnit report to the path `report`. */
export async function attempt(
  cwd: string,
  report: string,
  files: readonly string[],
  { testMs, fileMs }: Limits,
): Promise<Attempt> {
  const options = [`--timeout=${testMs}`, "--reporter=junit", `--reporter-outfile=${report}`]
  const begun = performance.now()
  // Both streams go to one file, which keeps their order.
  const printed = openSync(`${report}.log`, "w")
  const child = Bun.spawn([process.execPath, "test", ...options, ...files], {
    cwd,
    env: process.env, // otherwise the variables of the start of this process
    stdin: "ignore",
    stdout: printed,
    stderr: printed,
    timeout: fileMs,
    killSignal: "SIGKILL",
  })
  closeSync(printed)
  await child.exited
  const seconds = (performance.now() - begun) / 1000
  const cpuSeconds = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6
  const file = Bun.file(report)
  const cases = (await file.exists()) ? parseTestCases(await file.text()) : []
  const output = await readFile(`${report}.log`, "utf8")
  return { cases, exitCode: child.exitCode ?? undefined, output, seconds, cpuSeconds }
}

export function count(cases: readonly TestCase[], state: TestCase["state"]): number {
  return cases.filter((each) => each.state === state).length
}

/** Reports whether every test passed. Returns false if one was skipped. */
export function isGood({ cases, exitCode }: Attempt): boolean {
  return exitCode === 0 && cases.every(({ state }) => state === "passed")
}

/** Returns the number of failures, which is at least one if the run did not end normally. */
export function failuresOf(one: Attempt): number {
  const failed = count(one.cases, "failed") + count(one.cases, "skipped")
  return isGood(one) ? 0 : Math.max(failed, 1)
}

/** Returns the reason for a failure in one line, and the output of each failed test. */
export function explain(title: string, one: Attempt): string[] {
  const [failed, skipped] = [count(one.cases, "failed"), count(one.cases, "skipped")]
  const why = [
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped, which counts as failed`] : []),
  ]
  const ended = one.exitCode === undefined ? "a timeout or a signal" : `exit code ${one.exitCode}`
  const failures = failedTests(one.output)
  // If the run crashed, its last output is better than none.
  const last = failures.length === 0 ? [one.output.split("\n").slice(-60).join("\n")] : failures
  return [`${title}: ${why.join(", ") || `ended with ${ended}`}`, ...last]
}

function failedTests(output: string): string[] {
  const failures: string[] = []
  let lines: string[] = []
  for (const line of output.split("\n")) {
    lines.push(line)
    if (line.startsWith("(fail)")) failures.push(lines.slice(-60).join("\n"))
    if (/^\((fail|pass|skip|todo)\)/.test(line) || line.endsWith(".test.ts:")) lines = []
  }
  return failures
}

/** Returns the files to run again: those with a test that did not pass, or all if the report names no test. */
export function filesToRepeat(files: readonly string[], { cases }: Attempt): string[] {
  const bad = new Set(cases.filter(({ state }) => state !== "passed").map(({ file }) => file))
  const named = files.filter((file) => bad.has(join(file)))
  return named.length > 0 ? named : [...files]
}

/** Returns the first attempt with the results of the `repeated` files replaced by those of the second attempt. */
export function mended(first: Attempt, repeated: readonly string[], second: Attempt): Attempt {
  const isRepeated = ({ file }: TestCase) => repeated.some((each) => join(each) === file)
  const kept = first.cases.filter((each) => !isRepeated(each))
  return { ...second, cases: [...kept, ...second.cases] }
}
