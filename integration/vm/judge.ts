import type { TestCase } from "../../scripts/test/test-cases.ts"
import { allFeatures, type Feature, type LeftOut, leftOutLine } from "../lab/mod.ts"
import type { Job, Outcome, Run, Verdict } from "./job.ts"
import type { Kernel } from "./kernel.ts"

/** What came out of a machine: the verdict, and for each run the report of `bun test` where there is one. */
export interface Results {
  readonly verdict: Verdict
  readonly reports: readonly (readonly TestCase[] | undefined)[]
}

/** What is to be told about a machine. */
export interface Judgement {
  /** The titles of the tests that passed. */
  readonly passed: readonly string[]
  /** The tests that this kernel cannot run, as it was to be expected. */
  readonly leftOut: readonly LeftOut[]
  /** Why the machine failed, one sentence each; none when all is well. */
  readonly failures: readonly string[]
}

/**
 * Judges a machine from outside. It fails when it died, when a test failed or was skipped, when nothing passed, when
 * its kernel is not what it is said to be, and when a test was left out for want of what it is not said to lack.
 */
export function judge({ lacks }: Pick<Kernel, "lacks">, { runs }: Job, results: Results | undefined): Judgement {
  if (results === undefined) return { passed: [], leftOut: [], failures: ["the machine ended without a verdict"] }
  const { features, outcomes } = results.verdict
  const leftOut = outcomes.flatMap((outcome) => outcome.leftOut)
  const known: readonly string[] = lacks
  const isExpected = ({ missing }: LeftOut) => missing.every((feature) => known.includes(feature))
  const passed = results.reports.flatMap((report = []) => report.filter(({ state }) => state === "passed"))
  return {
    passed: passed.map(titleOf),
    leftOut: leftOut.filter(isExpected),
    failures: [
      ...featureFailures(lacks, features),
      ...runs.flatMap((run, at) => runFailures(run, outcomes[at], results.reports[at])),
      ...leftOut.filter((test) => !isExpected(test)).map(leftOutLine),
      ...(passed.length === 0 ? ["no test passed"] : []),
    ],
  }
}

function featureFailures(lacks: readonly Feature[], found: readonly Feature[]): string[] {
  return allFeatures
    .filter((feature) => lacks.includes(feature) === found.includes(feature))
    .map((feature) => `the kernel ${found.includes(feature) ? "has" : "has no"} ${feature}, against what is said of it`)
}

function runFailures(run: Run, outcome: Outcome | undefined, report: readonly TestCase[] = []): string[] {
  const isSelected = run.pattern !== undefined // what the pattern does not select is reported as skipped
  const bad = report.filter(({ state }) => state === "failed" || (state === "skipped" && !isSelected))
  if (bad.length > 0) return bad.map((test) => `${test.file}: ${titleOf(test)}: ${test.state}`)
  if (outcome?.exitCode === 0 || outcome?.isEmpty) return []
  return [`${run.title}: ended with ${outcome?.exitCode ?? "a signal"}`]
}

/** The title of a test by itself: what `testWith` has called it. */
function titleOf({ titles }: TestCase): string {
  return titles.at(-1) ?? ""
}
