import { expect, test } from "bun:test"
import { havePassed, judge } from "./judge.ts"
import type { Ended } from "./sandbox.ts"

const summary = " 2 pass\n 0 fail\n 3 expect() calls\nRan 2 tests across 1 file. [15.00ms]\n"

test.each([
  [true, "ran to its end", { exitCode: 0, output: summary }],
  [false, "failed", { exitCode: 1, output: summary.replace("0 fail", "1 fail") }],
  [false, "was killed for its time", { exitCode: undefined, output: summary }],
  [false, "ended early, with success", { exitCode: 0, output: "CNI dummy plugin v1.9.1\n" }],
])("that tests have passed is %p of a run that %s", (passed, _, ended) => {
  expect(havePassed(ended)).toBe(passed)
})

test("a test has noticed a mistake when it fails twice; one that fails once is told, and the next are asked", async () => {
  const change = { start: 0, end: 6, replacement: "", operator: "text" }
  const failed: Ended = { exitCode: 1, output: "(fail) is well\n 0 pass\n" }
  const passed: Ended = { exitCode: 0, output: summary }
  const verdictOf = async (...answers: Ended[]) => {
    const written: string[] = []
    const asked: string[] = []
    const place = {
      write: async (_: string, source: string) => void written.push(source.slice(0, 6)),
      run: async (command: readonly string[]) => {
        asked.push(command.at(-1) ?? "")
        return answers.shift() ?? passed
      },
    }
    const files: ReturnType<Parameters<typeof judge>[2]["of"]> = [["a.test.ts"], ["b.test.ts"], [], [], []]
    const verdict = await judge(import.meta.dir, place, { of: () => files }, { file: "judge.test.ts", change }, [])
    expect(written.filter((source) => source === "import")).toHaveLength(1)
    expect(written.at(-1)).toBe("import")
    return { ...verdict, asked }
  }
  const twice = { by: "unit" as const, sign: "(fail) is well", flaky: [] }
  expect(await verdictOf(failed, failed)).toEqual({ ...twice, asked: ["./a.test.ts", "./a.test.ts"] })
  expect(await verdictOf(failed, passed, failed, failed)).toEqual({
    ...twice,
    flaky: ["(fail) is well"],
    asked: ["./a.test.ts", "./a.test.ts", "./b.test.ts", "./b.test.ts"],
  })
  expect(await verdictOf(failed, passed)).toMatchObject({ by: "none", flaky: ["(fail) is well"] })
  expect(await verdictOf()).toMatchObject({ by: "none", flaky: [] })
})
