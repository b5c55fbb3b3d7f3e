import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { spawnCases } from "./spawn.fixture.ts"

const directory = mkdtempSync(join(tmpdir(), "spawn-node-"))
afterAll(() => rmSync(directory, { recursive: true }))

/** Cases that do not apply to Node's `spawnSync`, each with the reason. */
const left: Readonly<Record<string, string>> = {
  "no output is allowed": "a limit of 0 is no limit there",
  "more than a pipe holds, in and out at the same time": "the limit of output is one for both streams",
  "as much output as is allowed": "the limit of output is one for both streams",
  "a signal that no table names": "it tells no number of a signal",
  "a file that is not a program": "libuv starts such a file by /bin/sh, as execvp(3) does",
}
const tried = spawnCases.filter(([name]) => !(name in left))

test("the cases that are left out are cases", () => {
  expect(spawnCases.length - tried.length).toBe(Object.keys(left).length)
})

async function answersOnNode(): Promise<unknown[]> {
  const entry = join(directory, "entry.ts")
  const fixture = JSON.stringify(join(import.meta.dir, "spawn.fixture.ts"))
  await Bun.write(
    entry,
    `import { mkdirSync } from "node:fs"
     import { spawnCases } from ${fixture}
     const attempt = (work) => { try { return work() } catch (error) { return String(error) } }
     const tried = spawnCases.filter(([name]) => !${JSON.stringify(Object.keys(left))}.includes(name))
     console.log(JSON.stringify(tried.map(([, run], at) => {
       const own = ${JSON.stringify(directory)} + "/" + at
       mkdirSync(own)
       return attempt(() => run((name) => own + "/" + name))
     })))`,
  )
  const naming = "spawn.mjs"
  const define = { "import.meta.main": "false" }
  await Bun.build({
    entrypoints: [entry],
    target: "node",
    conditions: ["npm-package"],
    outdir: directory,
    naming,
    define,
  })
  const { stdout, stderr } = Bun.spawnSync(["node", join(directory, naming)], { timeout: 20_000 })
  expect(stderr.toString()).toBe("")
  return JSON.parse(stdout.toString())
}

const answers = await answersOnNode()
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

describe("spawn on Node:", () => {
  test.each(tried.map(([name, , expected], at) => [name, at, expected] as const))("%s", (_, at, expected) => {
    expect(answers[at]).toEqual(plain(expected))
  })
})
