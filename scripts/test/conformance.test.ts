import { describe, expect, test } from "bun:test"
import { failuresOf, judge } from "./conformance.ts"
import type { Statement } from "./statements.ts"
import type { TestCase } from "./test-cases.ts"

const one: Statement = { number: 1, subject: "Plugin", text: "It works.", since: "0.1.0", source: "S" }
const two: Statement = { ...one, number: 2, text: "It works twice." }
const elsewhere: Statement = { ...two, notHere: "for Linux only" }
const different: Statement = { ...two, differs: "it works once" }

const ran = (title: string, state: TestCase["state"] = "passed", file = "a.test.ts"): TestCase => ({
  titles: ["about", title],
  file,
  state,
})

/** Returns the verdicts on statements 1 and 2, and the counted failures. */
function outcome(tests: readonly TestCase[], statements: readonly Statement[] = [one, two]) {
  const judged = judge({ statements, errors: [] }, tests)
  return { verdicts: judged.judgements.map(({ verdict }) => verdict), failures: failuresOf(judged) }
}

describe("a statement", () => {
  test("holds when its test passed; one test may hold several", () => {
    expect(outcome([ran("#1, #2 it works"), ran("other", "failed")])).toEqual({
      verdicts: ["holds", "holds"],
      failures: [],
    })
  })

  test("without a test is one failure, with its number and text", () => {
    expect(outcome([ran("#1 it works")])).toEqual({
      verdicts: ["holds", "untested"],
      failures: ["#2 has no test: It works twice."],
    })
  })

  test("with a failing test is one failure, which names the file", () => {
    expect(outcome([ran("#1 it works", "failed"), ran("#2 it works")])).toEqual({
      verdicts: ["fails", "holds"],
      failures: ["#1 does not hold, see a.test.ts: It works."],
    })
  })

  test("with two tests holds when both passed, in any files", () => {
    const tests = [ran("#1 it works"), ran("#1 it works", "passed", "b.test.ts"), ran("#2 it works")]
    expect(outcome(tests).verdicts).toEqual(["holds", "holds"])
  })

  test("with two tests fails when one did, and only that one's file is named", () => {
    const tests = [ran("#1 it works"), ran("#1 it works", "failed", "b.test.ts"), ran("#2 it works")]
    expect(outcome(tests)).toEqual({
      verdicts: ["fails", "holds"],
      failures: ["#1 does not hold, see b.test.ts: It works."],
    })
  })

  test("whose test was skipped does not hold", () => {
    expect(outcome([ran("#1 it works", "skipped"), ran("#2 it works")]).verdicts).toEqual(["fails", "holds"])
  })

  test("is held by the tests within a describe that carries its number", () => {
    const within = (state: TestCase["state"]): TestCase => ({ titles: ["#1 it", "works"], file: "a.test.ts", state })
    expect(outcome([within("passed"), ran("#2 it works")]).verdicts).toEqual(["holds", "holds"])
    expect(outcome([within("passed"), within("failed"), ran("#2 it works")]).verdicts).toEqual(["fails", "holds"])
  })

  test("that does not apply needs no test", () => {
    expect(outcome([ran("#1 it works")], [one, elsewhere])).toEqual({
      verdicts: ["holds", "does not apply"],
      failures: [],
    })
  })

  test("that differs never holds, and needs a test of what is done instead", () => {
    expect(outcome([ran("#1 it works"), ran("#2 it works once")], [one, different])).toEqual({
      verdicts: ["holds", "differs"],
      failures: [],
    })
    expect(outcome([ran("#1 it works")], [one, different])).toEqual({
      verdicts: ["holds", "untested"],
      failures: ["#2 differs, but no test shows what is done instead: It works twice."],
    })
  })

  test.each(["failed", "skipped"] as const)("that differs, with a test that %s, is one failure", (state) => {
    const tests = [ran("#1 it works"), ran("#2 it works once"), ran("#2 it works once", state, "b.test.ts")]
    expect(outcome(tests, [one, different])).toEqual({
      verdicts: ["holds", "fails"],
      failures: ["#2 differs, but not in the way that its tests say, see b.test.ts: It works twice."],
    })
  })

  test("that does not apply, but has a test, is an error: one of the two is wrong", () => {
    expect(outcome([ran("#1 it works"), ran("#2 it works")], [one, elsewhere]).failures).toEqual([
      "#2 does not apply, says scripts/test/statements.txt, but it is in a.test.ts",
    ])
  })
})

test("a number that is not a statement's is an error, which names its files", () => {
  const tests = [
    ran("#1, #2 it works"),
    ran("#22 typing error"),
    ran("#3 beyond"),
    ran("#3 again", "failed", "b.test.ts"),
  ]
  expect(outcome(tests).failures).toEqual([
    "#3 is not in scripts/test/statements.txt, but in a.test.ts, b.test.ts",
    "#22 is not in scripts/test/statements.txt, but in a.test.ts",
  ])
})

test("what is wrong with the list counts too", () => {
  expect(failuresOf(judge({ statements: [one], errors: ["Cannot read"] }, [ran("#1 it works")]))).toEqual([
    "Cannot read",
  ])
})
