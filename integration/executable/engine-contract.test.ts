import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { copyFile, mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { answer, cases, type Json, rootCases } from "../../pkg/engine/contract.fixture.ts"
import { expectedForArguments } from "../../pkg/engine/contract-arguments.fixture.ts"
import { noise } from "../../pkg/engine/contract-text.fixture.ts"
import { engine } from "../../pkg/engine/mod.ts"
import { spawnCases } from "../../pkg/libc/spawn.fixture.ts"
import type { Program } from "../../scripts/bundle.ts"
import { buildFromBytecode, buildFromSnapshot } from "../../scripts/native.ts"
import { mustRun, type Output, runProgram, TemporaryDirectory } from "../lab/mod.ts"

const project = join(import.meta.dir, "../..")
const entries = {
  contract: join(project, "pkg/engine/contract.fixture.ts"),
  spawn: join(project, "pkg/libc/spawn.fixture.ts"),
}
type Entry = keyof typeof entries

/** Returns the command that starts a test program with each engine: the native host in its two start modes, and Bun. */
const commands: Record<string, (entry: Entry) => string[]> = {
  bytecode: (entry) => [join(built, "bytecode", entry)],
  snapshot: (entry) => [join(built, "snapshot", entry)],
  Bun: (entry) => [process.execPath, entries[entry]],
}
const natives = ["bytecode", "snapshot"]
const all = Object.keys(commands)
let built = ""

beforeAll(async () => {
  built = await mkdtemp(join(project, "dist/contract-"))
  const programs: Program[] = Object.entries(entries).map(([name, main]) => ({ name, run: { main, name: "run" } }))
  programs.push({ name: "unknown", run: { main: entries.contract, name: "run" } })
  for (const [kind, build] of Object.entries({ bytecode: buildFromBytecode, snapshot: buildFromSnapshot })) {
    await build(join(built, kind, "contract"), {}, programs)
    await copyFile(join(built, kind, "contract"), join(built, kind, "spawn"))
  }
})
afterAll(() => rm(built, { recursive: true }))

const commandOf = (kind: string, entry: Entry) => commands[kind]?.(entry) ?? []

async function ask(kind: string, entry: Entry, ...task: string[]): Promise<Json> {
  const { stdout } = await mustRun([...commandOf(kind, entry), ...task])
  return JSON.parse(stdout)
}

const named = <T>(names: readonly string[], values: readonly T[]) => names.map((name, at) => [name, values[at]])

describe.each(natives)("the native host, started from %s,", (kind) => {
  test("answers the contract's cases as expected", async () => {
    await using directory = await TemporaryDirectory.create()
    const names = cases.map(({ name }) => name)
    const answers = (await ask(kind, "contract", "cases", directory.path)) as Json[]
    expect(named(names, answers)).toEqual(
      named(
        names,
        cases.map(({ expected }) => expected),
      ),
    )
  })

  test("answers those that need root, and so does Bun", async () => {
    await using directories = await TemporaryDirectory.create()
    const expected = rootCases.map((one) => one.expected)
    expect(answer(engine, rootCases, directories.path)).toEqual(expected)
    await using directory = await TemporaryDirectory.create()
    expect(await ask(kind, "contract", "root", directory.path)).toEqual(expected)
  })

  test("throws for every wrong argument of every call [S109]", async () => {
    expect(await ask(kind, "contract", "arguments")).toEqual(expectedForArguments())
  })

  test("decodes bytes by chance as Bun does [S110]", async () => {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
    expect(await ask(kind, "contract", "noise")).toEqual(noise().map((bytes) => decoder.decode(bytes)))
  })

  test("runs programs as expected, and leaves neither descriptors nor processes [S111]", async () => {
    await using directory = await TemporaryDirectory.create()
    const answers = (await ask(kind, "spawn", "cases", directory.path)) as Json[]
    const names = spawnCases.map(([name]) => name)
    const expected = spawnCases.map(([, , wanted]) => ({ answer: wanted, leaked: 0, childless: true }))
    expect(named(names, answers)).toEqual(named(names, JSON.parse(JSON.stringify(expected))))
  })
})

test("the language of plugins has no promises", async () => {
  for (const kind of natives) {
    const answers = (await ask(kind, "contract", "jobs")) as Json[]
    expect(answers.filter((answer) => typeof answer === "string")).toContain("ReferenceError: Promise is not defined")
  }
})

describe.each(all)("the process on %s:", (kind) => {
  test("a program that finds no free descriptor is not started, and one that finds enough is", async () => {
    const limit = ["/usr/bin/prlimit", "--nofile=64:64"]
    const { stdout } = await mustRun([...limit, ...commandOf(kind, "spawn"), "few"])
    const stories = ["EMFILE", "EMFILE", "EMFILE", "EMFILE", "EMFILE", "EMFILE", "none", "none"]
    expect(JSON.parse(stdout)).toEqual({ stories, leaked: 0, childless: true })
  })

  test("signals that the caller ignores or blocks are as usual in a program, and exit codes are not lost [S112]", async () => {
    await using directory = await TemporaryDirectory.create()
    const caller = ["/usr/bin/env", "--ignore-signal=CHLD,HUP,PIPE,USR1", "--block-signal=TERM,USR2,CHLD"]
    const { stdout } = await mustRun([...caller, ...commandOf(kind, "contract"), "cases", directory.path])
    const answers = JSON.parse(stdout) as Json[]
    const aboutSignals = cases.flatMap(({ name, expected }, at) =>
      /signal|exit code/.test(name) ? [{ name, expected, at }] : [],
    )
    expect(aboutSignals.length).toBeGreaterThan(2)
    for (const { name, expected, at } of aboutSignals) expect([name, answers[at]]).toEqual([name, expected])
  })

  test("the environment is all that execve was given: odd, double, empty, not UTF-8", async () => {
    const odd = ["B=1", "A= é=", "A=twice", "odd", "=x", "", "N=", "X=😀\ufeff"]
    expect(await started([...commandOf(kind, "contract"), "environment"], odd)).toEqual(odd)
    expect(await started([...commandOf(kind, "contract"), "environment"], [])).toEqual([])
    const bytes = "$(printf 'A=\\303\\050\\355\\240\\200\\377')"
    const script = `exec env -i "${bytes}" ${commandOf(kind, "contract").join(" ")} environment`
    const { stdout } = await mustRun(["/bin/sh", "-c", script])
    expect(JSON.parse(stdout)).toEqual(["A=\ufffd(\ufffd\ufffd\ufffd\ufffd"])
  })

  test("so are the arguments", async () => {
    const odd = ["", "-", "--", "a b", "é", "*"]
    expect(await ask(kind, "contract", "command-line", ...odd)).toEqual(["command-line", ...odd])
    const script = `exec ${commandOf(kind, "contract").join(" ")} command-line "$(printf '\\303\\050')"`
    const { stdout } = await mustRun(["/bin/sh", "-c", script])
    expect(JSON.parse(stdout)).toEqual(["command-line", "\ufffd("])
  })

  test("exit codes", async () => {
    for (const status of [0, 1, 7, 255]) {
      const output = await exitOf(kind, String(status))
      expect([status, output.exitCode, output.stdout]).toEqual([status, status, ""])
    }
    for (const status of ["256", "-1", "1.5", "NaN"])
      expect([status, (await exitOf(kind, status)).exitCode]).toEqual([status, 1])
  })
})

const exitOf = (kind: string, status: string): Promise<Output> =>
  runProgram([...commandOf(kind, "contract"), "exit", status], { env: {} })

/** Starts a program with environment entries that no library would pass on, and returns the JSON that it prints. */
async function started(argv: string[], environment: string[]): Promise<unknown> {
  await using directory = await TemporaryDirectory.create()
  const out = engine.open(directory.join("out"), 0o2000102, 0o600)
  const input = engine.open("/dev/null", 0o2000000, 0)
  const errors = engine.open("/dev/null", 0o2000001, 0)
  const pid = engine.startProcess(argv[0] ?? "", argv, environment, null, Int32Array.of(input, out, errors), 0)
  const status = new Int32Array(1)
  expect([engine.wait4(pid, status, 0), status[0]]).toEqual([pid, 0])
  engine.close(out)
  engine.close(input)
  engine.close(errors)
  return await Bun.file(directory.join("out")).json()
}
