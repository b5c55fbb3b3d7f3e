import { join } from "node:path"
import type { Feature, LeftOut } from "../lab/mod.ts"

/** What a machine has to do: one `bun test` after the other. Written to the reports directory before it starts. */
export interface Job {
  readonly runs: readonly Run[]
  readonly patience: number
  /** Environment variables of the tests, beside the machine's own. */
  readonly env?: Readonly<Record<string, string>>
}

/** One `bun test`. */
export interface Run {
  readonly title: string
  readonly files: readonly string[]
  /** A pattern that selects tests by their title. */
  readonly pattern?: string
  /** The machine is started once more before it: such runs are the last ones. */
  readonly isAfterReboot?: boolean
}

/** What a machine says, written when all has ended. Without it the machine died. */
export interface Verdict {
  /** The features that its kernel has. */
  readonly features: readonly Feature[]
  /** One for each run. */
  readonly outcomes: readonly Outcome[]
}

/** How a run ended. */
export interface Outcome {
  /** `null`: ended by a signal. */
  readonly exitCode: number | null
  /** Whether the pattern selected no test at all, which `bun test` takes for a failure. */
  readonly isEmpty: boolean
  readonly leftOut: readonly LeftOut[]
}

/** Where things lie in the directory that the machine and its outside share. */
export const inReports = (directory: string) => ({
  job: join(directory, "job.json"),
  verdict: join(directory, "verdict.json"),
  /** What tests of faults tell: one JSON object in a line. */
  figures: join(directory, "figures.jsonl"),
  junit: (run: number) => join(directory, `${run}.xml`),
})
