import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { copyFile, mkdir, mkdtemp, readFile, rm, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { lock } from "proper-lockfile"
import { cases, type Json } from "../../pkg/engine/contract.fixture.ts"
import { jobCases } from "../../pkg/engine/contract-jobs.fixture.ts"
import { allLoopCases } from "../../pkg/loop/loop.fixture.ts"
import type { Program } from "../../scripts/bundle.ts"
import { buildFromSnapshot, toolFlavour } from "../../scripts/native.ts"
import { mustRun, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/** Tests the native host of the tool, which has promises and an event loop. */

const project = join(import.meta.dir, "../..")
const entries = {
  contract: "pkg/engine/contract.fixture.ts",
  loop: "pkg/loop/loop.fixture.ts",
  lock: "pkg/libcni/lock-directory.fixture.ts",
}
let built = ""

beforeAll(async () => {
  built = await mkdtemp(join(project, "dist/tool-host-"))
  const programs = Object.entries(entries).map(([name, main]): Program => {
    return { name, run: { main: join(project, main), name: "run" } }
  })
  await buildFromSnapshot(join(built, "contract"), toolFlavour, programs)
  for (const name of ["loop", "lock"]) await copyFile(join(built, "contract"), join(built, name))
})
afterAll(() => rm(built, { recursive: true }))

const programOf = (name: keyof typeof entries) => join(built, name)
const named = <T>(names: readonly string[], values: readonly T[]) => names.map((name, at) => [name, values[at]])

test("it answers the contract's cases as that of plugins does", async () => {
  await using directory = await TemporaryDirectory.create()
  const { stdout } = await mustRun([programOf("contract"), "cases", directory.path])
  const [names, expected] = [cases.map(({ name }) => name), cases.map((one) => one.expected)]
  expect(named(names, JSON.parse(stdout) as Json[])).toEqual(named(names, expected))
})

test("it runs the jobs of promises as expected", async () => {
  const { stdout } = await mustRun([programOf("contract"), "jobs"])
  const [names, expected] = [jobCases.map(([name]) => name), jobCases.map(([, , wanted]) => wanted)]
  expect(named(names, JSON.parse(stdout))).toEqual(named(names, expected))
})

test("it waits for several things as expected, and leaves neither descriptors nor processes", async () => {
  const { stdout, exitCode } = await runProgram([programOf("loop"), "cases"])
  expect(exitCode).toBe(7)
  const names = allLoopCases.map(([name]) => name)
  const expected = JSON.parse(JSON.stringify(allLoopCases.map(([, , wanted]) => wanted)))
  const { found, ...left } = JSON.parse(stdout)
  expect(named(names, found)).toEqual(named(names, expected))
  expect(left).toEqual({ left: 0, childless: true })
})

test.each([
  ["stuck", "Error: Cannot continue: nothing is left to wait for", /^drive\d* pkg\/loop\/drive\.ts:\d+$/],
  ["fails", "Error: the program's own", /^fails pkg\/loop\/loop\.fixture\.ts:\d+$/],
  ["fails aside", "Error: aside", /^fails aside pkg\/loop\/loop\.fixture\.ts:\d+$/],
])("a program that cannot go on ends with an error, and where it comes from: %s", async (task, message, frame) => {
  const { stdout, stderr, exitCode } = await runProgram([programOf("loop"), task], {
    env: { CNI_COMMAND: "ADD" },
  })
  const [first, ...frames] = stderr.trimEnd().split("\n")
  expect([stdout, first, exitCode]).toEqual(["", message, 1])
  expect(frames[0]?.trim().replace("at ", "")).toMatch(frame)
  for (const each of frames) expect(each).toMatch(/^ {4}at (\S.* )?\S+\.ts:\d+$/)
})

describe("the lock of a container, between a process on the native host and one with proper-lockfile:", () => {
  const options = (path: string) => ({ realpath: false, lockfilePath: path, stale: 10_000 })
  const start = (path: string) => Bun.spawn([programOf("lock"), path], { stdin: "pipe", stdout: "pipe" })
  type Holder = ReturnType<typeof start>

  async function said({ stdout }: Holder): Promise<string> {
    const reader = stdout.getReader()
    const { value } = await reader.read()
    reader.releaseLock()
    return new TextDecoder().decode(value).trim()
  }

  /** Makes a lock seem older, as if its holder had last updated it earlier. */
  async function age(path: string, ms: number): Promise<void> {
    const time = new Date((await stat(path)).mtimeMs - ms)
    await utimes(path, time, time)
  }

  test("each keeps the other out, and lets it in", async () => {
    await using directory = await TemporaryDirectory.create()
    const path = directory.join("lock")
    const native = start(path)
    expect(await said(native)).toBe("held")
    await expect(lock(path, options(path))).rejects.toThrow("already being held")
    native.stdin.end()
    expect(await native.exited).toBe(0)
    const unlock = await lock(path, options(path))
    const refused = start(path)
    expect([await said(refused), await refused.exited]).toEqual(["busy", 1])
    await unlock()
    const second = start(path)
    expect(await said(second)).toBe("held")
    second.stdin.end()
    await second.exited
  })

  test("what a killed one of each kind leaves is taken over after 10 s, and not before", async () => {
    await using directory = await TemporaryDirectory.create()
    const path = directory.join("lock")
    const native = start(path)
    expect(await said(native)).toBe("held")
    native.kill("SIGKILL")
    await native.exited
    await age(path, 7_000)
    await expect(lock(path, options(path))).rejects.toThrow("already being held")
    await age(path, 3_001)
    const unlock = await lock(path, options(path))
    await unlock()

    const hold = `await require("proper-lockfile").lock(${JSON.stringify(path)}, ${JSON.stringify(options(path))}); console.log("held")`
    const theirs = Bun.spawn([process.execPath, "-e", hold], { cwd: project, stdin: "ignore", stdout: "pipe" })
    for await (const _ of theirs.stdout) break
    theirs.kill("SIGKILL")
    await theirs.exited
    await age(path, 7_000)
    const early = start(path)
    expect([await said(early), await early.exited]).toEqual(["busy", 1])
    await age(path, 4_501) // the modification time is up to a second ahead
    const late = start(path)
    expect(await said(late)).toBe("held")
    late.stdin.end()
    await late.exited
  })

  test("of two that find the lock of a dead one at the same time, one takes it over", async () => {
    await using directory = await TemporaryDirectory.create()
    const path = directory.join("lock")
    await mkdir(path)
    await age(path, 11_000)
    const trace = directory.join("calls")
    const delays = ["-e", "trace=rmdir", "-e", "inject=rmdir:delay_enter=2000000"] // microseconds
    const slow = Bun.spawn(["strace", "-qq", "-o", trace, ...delays, programOf("lock"), path], {
      stdin: "pipe",
      stdout: "pipe",
    })
    while (!(await readFile(trace, "utf8").catch(() => "")).includes("rmdir")) await Bun.sleep(1)
    const fast = start(path)
    expect(await said(fast)).toBe("busy")
    expect(await said(slow)).toBe("held")
    slow.stdin.end()
    await slow.exited
  })

  test("a native holder says each second that it is alive, and learns that it has lost the lock", async () => {
    await using directory = await TemporaryDirectory.create()
    const path = directory.join("lock")
    const native = start(path)
    expect(await said(native)).toBe("held")
    const before = (await stat(path)).mtimeMs
    while ((await stat(path)).mtimeMs === before) await Bun.sleep(1)
    await rm(path, { recursive: true })
    expect([await said(native), await native.exited]).toEqual(["lost", 0])
  })
})
