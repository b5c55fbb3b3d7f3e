import { expect, test } from "bun:test"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { parseTestCases } from "./test-cases.ts"

test("tests are read with the titles around them, as they were written", () => {
  // from `bun test` 1.4.5
  const junit = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="5" assertions="2" failures="1" skipped="1" time="0.008">
  <testsuite name="a.test.ts" file="a.test.ts" tests="4" assertions="2" failures="1" skipped="1" time="0.005" hostname="h">
    <testcase name="a &quot;b&quot; &amp; &lt;c/&gt;&#10;" classname="" time="0" file="a.test.ts" line="2" assertions="0">
      <skipped />
    </testcase>
    <testsuite name="outer &gt; one" file="a.test.ts" line="4" tests="2" assertions="0" failures="1" skipped="0" time="0">
      <testsuite name="inner" file="a.test.ts" line="6" tests="1" assertions="0" failures="1" skipped="0" time="0">
        <testcase name="bad" classname="inner &gt; outer &gt; one" time="0" file="a.test.ts" line="6" assertions="1">
          <failure type="Error" message="&lt;testcase&gt;">Error: &lt;/testsuite&gt;</failure>
        </testcase>
      </testsuite>
      <testcase name="good" classname="outer &gt; one" time="0.00001" file="a.test.ts" line="5" assertions="0" />
    </testsuite>
    <testcase name="alone" classname="" time="0.00001" file="a.test.ts" line="9" assertions="0" />
  </testsuite>
  <testsuite name="b.test.ts" file="b.test.ts" tests="1" assertions="0" failures="0" skipped="0" time="0.001">
    <testcase name="other" classname="" time="0.00001" file="b.test.ts" line="1" assertions="0" />
  </testsuite>
</testsuites>`
  expect(parseTestCases(junit)).toEqual([
    { titles: ['a "b" & <c/>\n'], file: "a.test.ts", state: "skipped" },
    { titles: ["outer > one", "inner", "bad"], file: "a.test.ts", state: "failed" },
    { titles: ["outer > one", "good"], file: "a.test.ts", state: "passed" },
    { titles: ["alone"], file: "a.test.ts", state: "passed" },
    { titles: ["other"], file: "b.test.ts", state: "passed" },
  ])
})

test("a report without tests has none", () => {
  expect(parseTestCases("")).toEqual([])
})

test("this `bun test` writes reports in this form, and a hook that fails counts for the tests around it", async () => {
  await using directory = await TemporaryDirectory.create()
  await Bun.write(
    directory.join("a.test.ts"),
    `import { beforeAll, describe, expect, test } from "bun:test"
    test.each([1, 2])("one is %p", (n) => expect(n).toBe(1))
    describe("x > y", () => {
      describe("z", () => { test("deep & \\"quoted\\"", () => {}) })
      test("shallow", () => {})
    })
    describe("hooked", () => {
      beforeAll(() => { throw new Error("no") })
      test("never run", () => {})
    })`,
  )
  const command = [process.execPath, "test", "--reporter=junit", "--reporter-outfile=report.xml", "./a.test.ts"]
  const child = Bun.spawn(command, { cwd: directory.path, stdin: "ignore", stdout: "ignore", stderr: "ignore" })
  expect(await child.exited).toBe(1)
  const file = "a.test.ts"
  expect(parseTestCases(await Bun.file(directory.join("report.xml")).text())).toEqual([
    { titles: ["one is 1"], file, state: "passed" },
    { titles: ["one is 2"], file, state: "failed" },
    { titles: ["x > y", "z", 'deep & "quoted"'], file, state: "passed" },
    { titles: ["x > y", "shallow"], file, state: "passed" },
    { titles: ["hooked", "(unnamed)"], file, state: "failed" },
  ])
})
