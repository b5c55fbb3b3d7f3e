import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { answer, type Case, cases, type Json } from "./contract.fixture.ts"
import { argumentAnswers, expectedForArguments } from "./contract-arguments.fixture.ts"
import { decodedNoise, noise } from "./contract-text.fixture.ts"
import type { Engine } from "./engine.ts"
import { engine, servedCalls } from "./node.ts"

const directory = mkdtempSync(join(tmpdir(), "engine-node-"))
afterAll(() => rmSync(directory, { recursive: true }))

const ENOSYS = -38

/**
 * Reports whether Node's back end implements all calls of a case. It stops the case at the first missing call, because
 * the case would mistake the error number for the ID of a process.
 */
function isServed({ run }: Case, at: number): boolean {
  let served = true
  const watched = Object.fromEntries(
    Object.entries(engine).map(([name, call]) => [
      name,
      (...values: never[]) => {
        const value: unknown = (call as (...given: never[]) => unknown)(...values)
        served &&= value !== ENOSYS
        if (!served) throw new Error("not served")
        return value
      },
    ]),
  ) as unknown as Engine
  try {
    run(watched, (name) => `${directory}/${at}/${name}`)
  } catch {
    // The result is in `served`; the test of the case reports other errors.
  }
  return served
}

const tried = cases.filter((one, at) => {
  engine.mkdirat(`${directory}/${at}`, 0o700)
  return isServed(one, at)
})

describe("Node's back end keeps the contract:", () => {
  const own = mkdtempSync(join(directory, "own-"))
  const answers = answer(engine, tried, own)
  test.each(tried.map(({ name, expected }, at) => [name, at, expected] as const))("%s", (_, at, expected) => {
    expect(answers[at] ?? null).toEqual(expected)
  })
})

test("Node's back end has files, digests, text, the clock and the environment", () => {
  expect(servedCalls.join(" ")).toBe(
    "open close read write pread pwrite ftruncate fsync statx statfs linkat readlinkat getdents64 utimensat mkdirat rename unlink rmdir " +
      "getrandom kill",
  )
  expect(tried.length).toBeGreaterThan(80)
})

test("on Node itself it answers the same", async () => {
  const entry = join(directory, "entry.ts")
  const [fixture, door] = ["contract.fixture.ts", "mod.ts"].map((file) => JSON.stringify(join(import.meta.dir, file)))
  const names = JSON.stringify(tried.map(({ name }) => name))
  await Bun.write(
    entry,
    `import { answer, cases } from ${fixture}
     import { engine } from ${door}
     const tried = cases.filter(({ name }) => ${names}.includes(name))
     console.log(JSON.stringify(answer(engine, tried, process.argv[2])))`,
  )
  const naming = "contract.mjs"
  await Bun.build({ entrypoints: [entry], target: "node", conditions: ["npm-package"], outdir: directory, naming })
  const own = mkdtempSync(join(directory, "node-"))
  const { stdout, stderr } = Bun.spawnSync(["node", join(directory, "contract.mjs"), own])
  expect(stderr.toString()).toBe("")
  const answers: Json[] = JSON.parse(stdout.toString())
  expect(tried.map(({ name }, at) => [name, answers[at]])).toEqual(tried.map(({ name, expected }) => [name, expected]))
})

test("a wrong argument throws before Node sees anything of the call", () => {
  const names = [...servedCalls, "poll", "encodeUtf8", "decodeUtf8", "decodeLatin1", "crc32", "findBytes", "exit"]
  const own = (all: Record<string, string>) =>
    Object.entries(all).filter(([call]) => names.some((name) => call.startsWith(`${name}, `)))
  expect(own(argumentAnswers(engine)).length).toBeGreaterThan(200)
  expect(own(argumentAnswers(engine))).toEqual(own(expectedForArguments()))
})

test("bytes by chance are decoded as the Encoding Standard has it", () => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
  expect(decodedNoise(engine)).toEqual(noise().map((bytes) => decoder.decode(bytes)))
})
