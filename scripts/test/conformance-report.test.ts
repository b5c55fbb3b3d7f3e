import { expect, test } from "bun:test"
import { type Conformance, judge } from "./conformance.ts"
import { formatReport, jsonReport, summaryOf } from "./conformance-report.ts"
import type { Statement } from "./statements.ts"

const statement = (number: number, subject: string, more: Partial<Statement> = {}): Statement => ({
  number,
  subject,
  text: `Statement ${number}.`,
  since: "0.1.0",
  source: "S, U",
  ...more,
})

const statements = [
  statement(1, "Plugin"),
  statement(2, "Plugin"),
  statement(3, "Plugin", { notHere: "for Linux only" }),
  statement(4, "Runtime"),
  statement(5, "Runtime", { differs: "all errors are told, not the first" }),
]
const judged: Conformance = judge({ statements, errors: [] }, [
  { titles: ["a plugin", "#1 works"], file: "a.test.ts", state: "passed" },
  { titles: ["#1, #4 work"], file: "b.test.ts", state: "passed" },
  { titles: ["#4 too"], file: "b.test.ts", state: "passed" },
  { titles: ["#4 not always"], file: "c.test.ts", state: "failed" },
  { titles: ["DEL", "#5 goes on"], file: "c.test.ts", state: "passed" },
  { titles: ["#5 here too"], file: "d.test.ts", state: "passed" },
])

test("the report has each subject with its count, each statement with its files, and what differs apart", () => {
  expect(formatReport(judged)).toBe(`Plugin: 1 of 3 hold, 1 does not apply

✔   1  Statement 1.
       a.test.ts, b.test.ts
✘   2  Statement 2.
       no test
–   3  Statement 3.
       does not apply: for Linux only

Runtime: 0 of 2 hold, 1 differs on purpose

✘   4  Statement 4.
       failed: c.test.ts

Different on purpose

≠   5  Statement 5.
       all errors are told, not the first
       c.test.ts: DEL > #5 goes on
       d.test.ts: #5 here too
`)
})

test("a report without differences has no list of them", () => {
  const first = judged.judgements.slice(0, 1)
  expect(formatReport({ judgements: first, errors: [] })).toBe(
    "Plugin: 1 of 1 hold\n\n✔   1  Statement 1.\n       a.test.ts, b.test.ts\n",
  )
})

test("the summary is one line; statements that differ or do not apply are counted apart", () => {
  expect(summaryOf(judged)).toBe("conformance: 1 of 5 statements hold, 1 differs on purpose, 1 does not apply")
  const [first] = judged.judgements
  expect(summaryOf({ judgements: first === undefined ? [] : [first], errors: [] })).toBe(
    "conformance: 1 of 1 statements hold",
  )
})

test("the report for programs has all of that, and the titles", () => {
  const common = { since: "0.1.0", source: "S, U" }
  expect(jsonReport({ ...judged, errors: ["Cannot read"] })).toEqual({
    all: 5,
    hold: 1,
    differ: 1,
    doNotApply: 1,
    errors: ["Cannot read"],
    subjects: [
      {
        subject: "Plugin",
        all: 3,
        hold: 1,
        differ: 0,
        doNotApply: 1,
        statements: [
          {
            number: 1,
            text: "Statement 1.",
            ...common,
            verdict: "holds",
            tests: [
              { title: "a plugin > #1 works", file: "a.test.ts", state: "passed" },
              { title: "#1, #4 work", file: "b.test.ts", state: "passed" },
            ],
          },
          { number: 2, text: "Statement 2.", ...common, verdict: "untested", tests: [] },
          {
            number: 3,
            text: "Statement 3.",
            ...common,
            verdict: "does not apply",
            reason: "for Linux only",
            tests: [],
          },
        ],
      },
      {
        subject: "Runtime",
        all: 2,
        hold: 0,
        differ: 1,
        doNotApply: 0,
        statements: [
          {
            number: 4,
            text: "Statement 4.",
            ...common,
            verdict: "fails",
            tests: [
              { title: "#1, #4 work", file: "b.test.ts", state: "passed" },
              { title: "#4 too", file: "b.test.ts", state: "passed" },
              { title: "#4 not always", file: "c.test.ts", state: "failed" },
            ],
          },
          {
            number: 5,
            text: "Statement 5.",
            ...common,
            verdict: "differs",
            reason: "all errors are told, not the first",
            tests: [
              { title: "DEL > #5 goes on", file: "c.test.ts", state: "passed" },
              { title: "#5 here too", file: "d.test.ts", state: "passed" },
            ],
          },
        ],
      },
    ],
  })
})
