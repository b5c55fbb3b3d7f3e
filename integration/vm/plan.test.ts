import { expect, test } from "bun:test"
import { planJob } from "./plan.ts"

const kernel = { files: ["a.test.ts"], shows: ["vlan"], patience: 20 } as const
const files = new Map([
  ["a.test.ts", 'testWith(["vlan"], …'],
  ["b.test.ts", 'test("a test for every kernel"'],
  ["c.test.ts", 'testWith(["vrf"], …'],
])

test("a kernel runs its own files whole, and of others what it shows or the machine outside lacks", () => {
  expect(planJob(kernel, files, ["vrf", "vlan", "vrf"])).toEqual({
    patience: 20,
    runs: [
      { title: "a.test.ts", files: ["./integration/a.test.ts"] },
      {
        title: "tests that need one of: vlan, vrf",
        files: ["./integration/c.test.ts"],
        pattern: "\\(needs (\\w+, )*(vlan|vrf)(, \\w+)*\\)$",
      },
    ],
  })
})

test("a file that has gone is an error, not one file less", () => {
  expect(() => planJob({ ...kernel, files: ["x.test.ts"] }, files, [])).toThrow("Cannot find integration/x.test.ts")
})
