import type { TestCase } from "../../scripts/test/test-cases.ts"
import { allFeatures, type Feature, type LeftOut, leftOutLine } from "../lab/mod.ts"
import type { Job, Outcome, Run, Verdict } from "./job.ts"
import type { Kernel } from "./kernel.ts"

/** The output of a machine: its results, and the report of each `bun test` run that wrote one. */
export interface Results {
  readonly verdict: Verdict
  readonly reports: readonly (readonly TestCase[] | undefined)[]
  /** The results of fault tests, as rows of a table. */
  readonly figures?: readonly string[]
}

export interface Judgement {
  readonly passed: readonly string[]
  /** The skipped tests that this kernel cannot run, as expected. */
  readonly leftOut: readonly LeftOut[]
  /** The reasons why the machine failed, one sentence each. The list is empty if the machine succeeded. */
  readonly failures: readonly string[]
}

/**
 * Evaluates the results of a machine. The machine fails if it died, if a test failed or was skipped, if no test passed,
 * or if its kernel differs from its description. A test that was left out is a failure only if the kernel should have
 * the feature.
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
  const isSelected = run.pattern !== undefined // `bun test` reports tests that do not match the pattern as skipped
  const bad = report.filter(({ state }) => state === "failed" || (state === "skipped" && !isSelected))
  if (bad.length > 0) return bad.map((test) => `${test.file}: ${titleOf(test)}: ${test.state}`)
  if (outcome?.exitCode === 0 || outcome?.isEmpty) return []
  return [`${run.title}: ended with ${outcome?.exitCode ?? "a signal"}`]
}

/** Returns the title of a test without those of its groups, as `testWith` set it. */
function titleOf({ titles }: TestCase): string {
  return titles.at(-1) ?? ""
}
