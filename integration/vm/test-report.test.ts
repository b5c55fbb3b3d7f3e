import { expect, test } from "bun:test"
import { parseTestCases } from "./test-report.ts"

test("tests are read from a report of `bun test`, with their titles as they were written", () => {
  const junit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="3" assertions="2" failures="1" skipped="1" time="0.008">
  <testsuite name="one.test.ts" file="one.test.ts" tests="3" assertions="2" failures="1" skipped="1" time="0.005">
    <testcase name="a &quot;b&quot; &amp; &lt;c&gt;&#10;" classname="" time="0" file="one.test.ts" line="2" assertions="0">
      <skipped />
    </testcase>
    <testcase name="good (needs vlan)" classname="d &gt; e" time="0.00007" file="one.test.ts" line="3" assertions="1" />
    <testcase name="bad" classname="" time="0.004311" file="one.test.ts" line="4" assertions="1">
      <failure type="AssertionError" message="Expected: 2&#10;">AssertionError: &lt;testcase&gt;</failure>
    </testcase>
  </testsuite>
</testsuites>`
  expect(parseTestCases(junit)).toEqual([
    { title: 'a "b" & <c>\n', file: "one.test.ts", state: "skipped" },
    { title: "good (needs vlan)", file: "one.test.ts", state: "passed" },
    { title: "bad", file: "one.test.ts", state: "failed" },
  ])
})
