import { expect, test } from "bun:test"
import type { TestCase } from "../../scripts/test/test-cases.ts"
import { allFeatures } from "../lab/mod.ts"
import type { Outcome } from "./job.ts"
import { judge } from "./judge.ts"

const kernel = { lacks: ["nf_tables"] } as const
const job = {
  patience: 1,
  runs: [
    { title: "whole files", files: ["./integration/a.test.ts"] },
    { title: "selected tests", files: ["./integration/b.test.ts"], pattern: "needs" },
  ],
}
const features = allFeatures.filter((feature) => feature !== "nf_tables")
const ended: Outcome = { exitCode: 0, isEmpty: false, leftOut: [] }

function tests(...states: TestCase["state"][]): TestCase[] {
  return states.map((state) => ({ titles: [`a ${state} test`], file: "a.test.ts", state }))
}

/** Returns the failures of a machine with these results of its two runs. */
function failuresOf(first: Partial<Outcome>, second: Partial<Outcome>, reports = [tests("passed"), tests("passed")]) {
  const outcomes = [
    { ...ended, ...first },
    { ...ended, ...second },
  ]
  const verdict = { features, outcomes }
  return judge(kernel, job, { verdict, reports }).failures
}

test("a machine in which all tests passed has not failed, and tells which they were", () => {
  expect(failuresOf({}, {})).toEqual([])
  const results = {
    verdict: { features, outcomes: [ended, ended] },
    reports: [tests("passed"), tests("skipped", "passed")],
  }
  expect(judge(kernel, job, results)).toMatchObject({ passed: ["a passed test", "a passed test"], failures: [] })
})

test("a machine that died has failed", () => {
  expect(judge(kernel, job, undefined).failures).toEqual(["the machine ended without a verdict"])
})

test("a failed test is a failure, and so is a skipped one that no pattern left out", () => {
  expect(failuresOf({ exitCode: 1 }, {}, [tests("passed", "failed"), tests("skipped", "passed")])).toEqual([
    "a.test.ts: a failed test: failed",
  ])
  expect(failuresOf({}, {}, [tests("skipped", "passed"), []])).toEqual(["a.test.ts: a skipped test: skipped"])
})

test("a run that did not come to its end is a failure, also when all before passed", () => {
  expect(failuresOf({ exitCode: null }, {})).toEqual(["whole files: ended with a signal"])
  expect(failuresOf({}, { exitCode: 1 })).toEqual(["selected tests: ended with 1"])
})

test("a pattern that selects nothing is not a failure, since all of it may have been left out", () => {
  expect(failuresOf({}, { exitCode: 1, isEmpty: true }, [tests("passed"), tests("skipped")])).toEqual([])
})

test("a machine in which nothing passed has failed", () => {
  expect(failuresOf({}, {}, [[], []])).toEqual(["no test passed"])
})

test("a test may be left out for lack of what the kernel is known to lack, and for nothing else", () => {
  const expected = { title: "a masquerade (needs nf_tables)", missing: ["nf_tables"] }
  const unexpected = { title: "a VLAN (needs vlan)", missing: ["vlan"] }
  const outcomes = [
    { ...ended, leftOut: [expected] },
    { ...ended, leftOut: [unexpected] },
  ]
  const results = { verdict: { features, outcomes }, reports: [tests("passed"), []] }
  const { leftOut, failures } = judge(kernel, job, results)
  expect(leftOut).toEqual([expected])
  expect(failures).toEqual(["not on this kernel: a VLAN (needs vlan); missing: vlan"])
})

test("a kernel has what it is said to have, and lacks what it is said to lack", () => {
  const found = allFeatures.filter((feature) => feature !== "vlan")
  const results = {
    verdict: { features: found, outcomes: [ended, ended] },
    reports: [tests("passed"), tests("passed")],
  }
  expect(judge(kernel, job, results).failures).toEqual([
    "the kernel has no vlan, against what is said of it",
    "the kernel has nf_tables, against what is said of it",
  ])
})
