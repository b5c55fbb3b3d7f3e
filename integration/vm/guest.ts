/**
 * Runs the tests inside a machine, and writes the results to the reports directory.
 *
 *   bun integration/vm/guest.ts DIRECTORY
 */
import { rename } from "node:fs/promises"
import { execa } from "execa"
import { allFeatures, hasFeature, leftOutTests } from "../lab/mod.ts"
import { inReports, type Job, type Outcome, type Run, type Verdict } from "./job.ts"

/** The timeout of a test without emulation, in milliseconds. */
const testMs = 30_000

async function runTests(
  run: Run,
  junit: string,
  patience: number,
  env: Readonly<Record<string, string>>,
): Promise<Outcome> {
  const options = [`--timeout=${testMs * patience}`, "--reporter=junit", `--reporter-outfile=${junit}`]
  if (run.pattern !== undefined) options.push(`--test-name-pattern=${run.pattern}`)
  const { exitCode, stdout, stderr } = await execa(process.execPath, ["test", ...options, ...run.files], {
    env: { ...env, CNI_TEST_PATIENCE: String(patience) },
    stdin: "ignore",
    stdout: ["inherit", "pipe"],
    stderr: ["inherit", "pipe"],
    reject: false,
  })
  const isEmpty = /^error: regex .* matched 0 tests/m.test(stderr)
  return { exitCode: exitCode ?? null, isEmpty, leftOut: leftOutTests(stdout) }
}

if (import.meta.main) {
  const reports = inReports(process.argv[2] ?? "")
  const { runs, patience, env } = (await Bun.file(reports.job).json()) as Job
  const outcomes: Outcome[] = []
  for (const [at, run] of runs.entries()) {
    console.log(`\n==> ${run.title}`)
    outcomes.push(await runTests(run, reports.junit(at), patience, env ?? {}))
  }
  const verdict: Verdict = { features: allFeatures.filter(hasFeature), outcomes }
  await Bun.write(`${reports.verdict}.part`, JSON.stringify(verdict))
  await rename(`${reports.verdict}.part`, reports.verdict) // atomically
}
