import { expect, test } from "bun:test"
import { parseTotals } from "./totals.ts"

test("totals come from the outermost element of the report", () => {
  const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="7" assertions="9" failures="2" skipped="1" time="0.2">
  <testsuite name="a.test.ts" tests="3" assertions="1" failures="1" skipped="1" time="0.1"></testsuite>
</testsuites>`
  expect(parseTotals(report)).toEqual({ passed: 4, failed: 2, skipped: 1 })
})

test("a report without totals is an error, not zero tests", () => {
  expect(() => parseTotals("")).toThrow("Cannot read the test report")
})
