import { expect, test } from "bun:test"
import { havePassed } from "./judge.ts"

const summary = " 2 pass\n 0 fail\n 3 expect() calls\nRan 2 tests across 1 file. [15.00ms]\n"

test.each([
  [true, "ran to its end", { exitCode: 0, output: summary }],
  [false, "failed", { exitCode: 1, output: summary.replace("0 fail", "1 fail") }],
  [false, "was killed for its time", { exitCode: undefined, output: summary }],
  [false, "ended early, with success", { exitCode: 0, output: "CNI dummy plugin v1.9.1\n" }],
])("that tests have passed is %p of a run that %s", (passed, _, ended) => {
  expect(havePassed(ended)).toBe(passed)
})
