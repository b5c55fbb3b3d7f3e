import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { answer, cases } from "./contract.fixture.ts"
import { argumentAnswers, expectedForArguments, parameters } from "./contract-arguments.fixture.ts"
import { decodedNoise, noise } from "./contract-text.fixture.ts"
import { engine } from "./mod.ts"

const directory = mkdtempSync(join(tmpdir(), "engine-contract-"))
afterAll(() => rmSync(directory, { recursive: true }))

// integration/executable/engine-contract.test.ts runs the same cases on the native host.
describe("the engine under the tests keeps the contract:", () => {
  const answers = answer(engine, cases, directory)
  test.each(cases.map(({ name, expected }, at) => [name, at, expected] as const))("%s", (_, at, expected) => {
    expect(answers[at] ?? null).toEqual(expected)
  })
})

test("a wrong argument throws before the kernel sees anything of the call", () => {
  expect(argumentAnswers(engine)).toEqual(expectedForArguments())
})

test("the wrong arguments are those of every call that has any", () => {
  const without = ["monotonicMs", "environment", "arguments", "collectGarbage", "later", "onSignal", "newStop"]
  expect(Object.keys(parameters).sort()).toEqual(
    Object.keys(engine)
      .filter((name) => !without.includes(name))
      .sort(),
  )
})

test("bytes by chance are decoded as the Encoding Standard has it", () => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  expect(decodedNoise(engine)).toEqual(noise().map((bytes) => decoder.decode(bytes)))
})
