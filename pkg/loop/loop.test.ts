import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { allLoopCases, loopCases, programCases } from "./loop.fixture.ts"

const directory = mkdtempSync(join(tmpdir(), "loop-"))
afterAll(() => rmSync(directory, { recursive: true }))

const plain = (value: unknown) => JSON.parse(JSON.stringify(value ?? null))

// integration/executable/engine-contract.test.ts runs the same cases on the native host.
describe("on the engine under the tests", () => {
  test.each(allLoopCases.map(([name, run, expected]) => [name, run, expected] as const))(
    "%s",
    async (_, run, expected) => {
      expect(plain(await run())).toEqual(plain(expected))
    },
  )
})

test("on Node timers, signals and programs answer the same", async () => {
  const entry = join(directory, "entry.ts")
  const fixture = JSON.stringify(join(import.meta.dir, "loop.fixture.ts"))
  await Bun.write(
    entry,
    `import { answers, loopCases, programCases } from ${fixture}
     console.log(JSON.stringify(await answers([...loopCases, ...programCases])))`,
  )
  const [outdir, naming] = [directory, "loop.mjs"]
  await Bun.build({ entrypoints: [entry], target: "node", conditions: ["npm-package"], outdir, naming })
  const { stdout, stderr } = Bun.spawnSync(["node", join(directory, "loop.mjs")])
  expect(stderr.toString()).toBe("")
  const answers: unknown[] = JSON.parse(stdout.toString())
  const cases = [...loopCases, ...programCases]
  expect(cases.map(([name], at) => [name, answers[at]])).toEqual(
    cases.map(([name, , expected]) => [name, plain(expected)]),
  )
})
