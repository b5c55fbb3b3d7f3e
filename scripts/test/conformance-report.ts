import { type Conformance, filesOf, type Judgement, type Verdict } from "./conformance.ts"

/** One line for all: `conformance: 249 of 249 statements hold, 1 does not apply`. */
export function summaryOf({ judgements }: Conformance): string {
  return `conformance: ${countsOf(judgements, "statements hold")}`
}

/** The report for humans: for each subject how many statements hold, then each of them with its tests. */
export function formatReport({ judgements }: Conformance): string {
  return bySubject(judgements)
    .map(
      ([subject, judged]) => `${subject}: ${countsOf(judged, "hold")}\n\n${judged.map(formatJudgement).join("\n")}\n`,
    )
    .join("\n")
}

/** The report for programs. */
export function jsonReport({ judgements, errors }: Conformance): object {
  return {
    ...tally(judgements),
    errors,
    subjects: bySubject(judgements).map(([subject, judged]) => ({
      subject,
      ...tally(judged),
      statements: judged.map(({ statement: { subject: _, notHere, ...statement }, verdict, tests }) => ({
        ...statement,
        verdict,
        ...(notHere !== undefined && { reason: notHere }),
        tests: tests.map(({ titles, file, state }) => ({ title: titles.join(" > "), file, state })),
      })),
    })),
  }
}

const marks: Readonly<Record<Verdict, string>> = { holds: "✔", fails: "✘", untested: "✘", "does not apply": "–" }

function formatJudgement({ statement, verdict, tests }: Judgement): string {
  const under = {
    holds: filesOf(tests),
    fails: `failed: ${filesOf(tests.filter(({ state }) => state !== "passed"))}`,
    untested: "no test",
    "does not apply": `does not apply: ${statement.notHere}`,
  }
  return `${marks[verdict]} ${String(statement.number).padStart(3)}  ${statement.text}\n       ${under[verdict]}`
}

/** How many of those that apply hold, and how many do not apply. */
function tally(judgements: readonly Judgement[]): { hold: number; apply: number; doNotApply: number } {
  const count = (wanted: Verdict) => judgements.filter(({ verdict }) => verdict === wanted).length
  const doNotApply = count("does not apply")
  return { hold: count("holds"), apply: judgements.length - doNotApply, doNotApply }
}

function countsOf(judgements: readonly Judgement[], words: string): string {
  const { hold, apply, doNotApply } = tally(judgements)
  const rest = doNotApply === 0 ? "" : `, ${doNotApply} ${doNotApply === 1 ? "does" : "do"} not apply`
  return `${hold} of ${apply} ${words}${rest}`
}

function bySubject(judgements: readonly Judgement[]): [subject: string, judgements: Judgement[]][] {
  return [...Map.groupBy(judgements, ({ statement }) => statement.subject)]
}
