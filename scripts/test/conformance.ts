import { numbersOf } from "./numbers.ts"
import type { Statement, StatementList } from "./statements.ts"
import type { TestCase } from "./test-cases.ts"

/**
 * The verdict on a statement. It "holds" if at least one test has its number, and all tests with its number passed. If
 * the suite differs from the statement on purpose, the verdict is "differs" instead.
 */
export type Verdict = "holds" | "differs" | "fails" | "untested" | "does not apply"

export interface Judgement {
  readonly statement: Statement
  readonly verdict: Verdict
  /** The tests that have the statement's number. */
  readonly tests: readonly TestCase[]
}

/** The results for all statements, and errors in the list and in the numbers of test titles. */
export interface Conformance {
  readonly judgements: readonly Judgement[]
  readonly errors: readonly string[]
}

/** Judges the statements by the tests that ran. */
export function judge({ statements, errors }: StatementList, tests: readonly TestCase[]): Conformance {
  const carriers = new Map<number, TestCase[]>()
  for (const test of tests) {
    for (const number of numbersOf(test)) carriers.set(number, [...(carriers.get(number) ?? []), test])
  }
  const judgements = statements.map((statement) => judgeOne(statement, carriers.get(statement.number) ?? []))
  const known = new Set(statements.map(({ number }) => number))
  const unknown = [...carriers].filter(([number]) => !known.has(number)).sort(([a], [b]) => a - b)
  const obsolete = judgements.filter(({ verdict, tests }) => verdict === "does not apply" && tests.length > 0)
  return {
    judgements,
    errors: [
      ...errors,
      ...unknown.map(([number, tests]) => `#${number} is not in scripts/test/statements.txt, but in ${filesOf(tests)}`),
      ...obsolete.map(
        ({ statement, tests }) =>
          `#${statement.number} does not apply, says scripts/test/statements.txt, but it is in ${filesOf(tests)}`,
      ),
    ],
  }
}

function judgeOne(statement: Statement, tests: readonly TestCase[]): Judgement {
  return { statement, verdict: verdictOf(statement, tests), tests }
}

function verdictOf({ notHere, differs }: Statement, tests: readonly TestCase[]): Verdict {
  if (notHere !== undefined) return "does not apply"
  if (tests.length === 0) return "untested"
  if (tests.some(({ state }) => state !== "passed")) return "fails"
  return differs === undefined ? "holds" : "differs"
}

/** Returns the files of tests without duplicates. */
export function filesOf(tests: readonly TestCase[]): string {
  return [...new Set(tests.map(({ file }) => file))].join(", ")
}

/** Returns one sentence for each error, and for each statement that no test proves. */
export function failuresOf({ judgements, errors }: Conformance): string[] {
  return [...errors, ...judgements.flatMap(failureOf)]
}

function failureOf({ statement: { number, text, differs }, verdict, tests }: Judgement): string[] {
  if (verdict === "untested") {
    const missing = differs === undefined ? "has no test" : "differs, but no test shows what is done instead"
    return [`#${number} ${missing}: ${text}`]
  }
  if (verdict !== "fails") return []
  const broken = differs === undefined ? "does not hold" : "differs, but not in the way that its tests say"
  return [`#${number} ${broken}, see ${filesOf(tests.filter(({ state }) => state !== "passed"))}: ${text}`]
}
