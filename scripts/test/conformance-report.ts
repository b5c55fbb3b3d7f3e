import { type Conformance, filesOf, type Judgement, type Verdict } from "./conformance.ts"

/** Formats the summary: `conformance: 240 of 250 statements hold, 7 differ on purpose, 3 do not apply`. */
export function summaryOf({ judgements }: Conformance): string {
  return `conformance: ${countsOf(judgements, "statements hold")}`
}

/**
 * Formats the report for people. Each subject has the number of statements that hold, and each statement with its
 * tests. At the end are the statements from which the suite differs on purpose, with the reasons.
 */
export function formatReport({ judgements }: Conformance): string {
  const [different, others] = [judgements.filter(isDifferent), judgements.filter((one) => !isDifferent(one))]
  const listed = Map.groupBy(others, subjectOf)
  const sections = bySubject(judgements).map(([subject, judged]) => {
    const rows = (listed.get(subject) ?? []).map(formatJudgement)
    return [`${subject}: ${countsOf(judged, "hold")}\n`, ...rows]
  })
  if (different.length > 0) sections.push(["Different on purpose\n", ...different.map(formatDifference)])
  return sections.map((lines) => `${lines.join("\n")}\n`).join("\n")
}

export function jsonReport({ judgements, errors }: Conformance): object {
  return {
    ...tally(judgements),
    errors,
    subjects: bySubject(judgements).map(([subject, judged]) => ({
      subject,
      ...tally(judged),
      statements: judged.map(({ statement: { subject: _, notHere, differs, ...statement }, verdict, tests }) => {
        const reason = notHere ?? differs
        return {
          ...statement,
          verdict,
          ...(reason !== undefined && { reason }),
          tests: tests.map((test) => ({ title: titleOf(test), file: test.file, state: test.state })),
        }
      }),
    })),
  }
}

const marks: Readonly<Record<Verdict, string>> = {
  holds: "✔",
  differs: "≠",
  fails: "✘",
  untested: "✘",
  "does not apply": "–",
}

function formatJudgement({ statement, verdict, tests }: Judgement): string {
  const under = {
    holds: filesOf(tests),
    differs: statement.differs,
    fails: `failed: ${filesOf(tests.filter(({ state }) => state !== "passed"))}`,
    untested: "no test",
    "does not apply": `does not apply: ${statement.notHere}`,
  }
  return `${marks[verdict]} ${String(statement.number).padStart(3)}  ${statement.text}\n       ${under[verdict]}`
}

/** Formats a statement from which the suite differs on purpose: the difference, and the tests that show it. */
function formatDifference(judgement: Judgement): string {
  const shown = judgement.tests.map((test) => `       ${test.file}: ${titleOf(test)}`)
  return [formatJudgement(judgement), ...shown].join("\n")
}

interface Tally {
  readonly all: number
  readonly hold: number
  readonly differ: number
  readonly doNotApply: number
}

function tally(judgements: readonly Judgement[]): Tally {
  const count = (wanted: Verdict) => judgements.filter(({ verdict }) => verdict === wanted).length
  return { all: judgements.length, hold: count("holds"), differ: count("differs"), doNotApply: count("does not apply") }
}

function countsOf(judgements: readonly Judgement[], words: string): string {
  const { all, hold, differ, doNotApply } = tally(judgements)
  const counts = [`${hold} of ${all} ${words}`]
  if (differ > 0) counts.push(`${differ} ${differ === 1 ? "differs" : "differ"} on purpose`)
  if (doNotApply > 0) counts.push(`${doNotApply} ${doNotApply === 1 ? "does" : "do"} not apply`)
  return counts.join(", ")
}

function bySubject(judgements: readonly Judgement[]): [subject: string, judgements: Judgement[]][] {
  return [...Map.groupBy(judgements, subjectOf)]
}

function subjectOf({ statement }: Judgement): string {
  return statement.subject
}

function isDifferent({ verdict }: Judgement): boolean {
  return verdict === "differs"
}

function titleOf({ titles }: Judgement["tests"][number]): string {
  return titles.join(" > ")
}
