import { join } from "node:path"
import type { Feature, LeftOut } from "../lab/mod.ts"

/** The job of a machine: a sequence of `bun test` runs. It is written to the reports directory before the start. */
export interface Job {
  readonly runs: readonly Run[]
  readonly patience: number
  /** Environment variables of the tests, in addition to the machine's own. */
  readonly env?: Readonly<Record<string, string>>
}

/** One `bun test`. */
export interface Run {
  readonly title: string
  readonly files: readonly string[]
  /** A pattern that selects tests by their title. */
  readonly pattern?: string
  /** Whether the machine reboots before this run. Such runs are the last ones. */
  readonly isAfterReboot?: boolean
}

/** The machine's verdict, written after all runs. Without it the machine died. */
export interface Verdict {
  /** The features of its kernel. */
  readonly features: readonly Feature[]
  /** One for each run. */
  readonly outcomes: readonly Outcome[]
}

/** The outcome of a run. */
export interface Outcome {
  /** `null` after a signal. */
  readonly exitCode: number | null
  /** Whether the pattern selected no test, which `bun test` reports as a failure. */
  readonly isEmpty: boolean
  readonly leftOut: readonly LeftOut[]
}

/** The paths in the directory that the machine shares with the outside. */
export const inReports = (directory: string) => ({
  job: join(directory, "job.json"),
  verdict: join(directory, "verdict.json"),
  /** The figures of fault tests: one JSON object per line. */
  figures: join(directory, "figures.jsonl"),
  junit: (run: number) => join(directory, `${run}.xml`),
})
