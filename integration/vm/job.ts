import { join } from "node:path"
import type { Feature, LeftOut } from "../lab/mod.ts"

/** The work of a machine: `bun test` runs in sequence. The job is written to the reports directory before the start. */
export interface Job {
  readonly runs: readonly Run[]
  readonly patience: number
  /** Environment variables for the tests, in addition to those of the machine. */
  readonly env?: Readonly<Record<string, string>>
}

export interface Run {
  readonly title: string
  readonly files: readonly string[]
  /** A pattern that selects tests by their title. */
  readonly pattern?: string
  /** Whether the machine reboots before this run. These runs come after all other runs. */
  readonly isAfterReboot?: boolean
}

/** The machine's results, written after all runs. If the results are missing, the machine has died. */
export interface Verdict {
  readonly features: readonly Feature[]
  readonly outcomes: readonly Outcome[]
}

export interface Outcome {
  /** The exit code of `bun test`, or `null` if a signal ended it. */
  readonly exitCode: number | null
  /** Whether the pattern selected no test, which `bun test` reports as a failure. */
  readonly isEmpty: boolean
  readonly leftOut: readonly LeftOut[]
}

/** Returns the paths in the directory that the machine shares with the outer machine. */
export const inReports = (directory: string) => ({
  job: join(directory, "job.json"),
  verdict: join(directory, "verdict.json"),
  /** The results of fault tests, one JSON object on each line. */
  figures: join(directory, "figures.jsonl"),
  junit: (run: number) => join(directory, `${run}.xml`),
})
