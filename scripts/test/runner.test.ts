import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"

const limits = { testMs: 900_000, fileMs: 900_000 }

/** Test files by name, each with the body of its only test. */
type Files = Readonly<Record<string, string>>

const good = ""
const bad = 'throw new Error("broken")'
/** The body of a test that fails only in its first run. */
const once = `if (!existsSync(import.meta.path + ".seen")) { writeFileSync(import.meta.path + ".seen", ""); throw new Error("too slow") }`

/** Runs these files by a runner in another process. Returns the runner's lines, exit code and log. */
async function run(files: Files, { together = false, retry = true }: { together?: boolean; retry?: boolean } = {}) {
  await using directory = await TemporaryDirectory.create("cni-runner")
  for (const [name, body] of Object.entries(files)) {
    const head = 'import { test } from "bun:test"\nimport { existsSync, writeFileSync } from "node:fs"\n'
    writeFileSync(directory.join(`${name}.test.ts`), `${head}test("title of ${name}", () => { ${body} })\n`)
  }
  const paths = Object.keys(files).map((name) => `./${name}.test.ts`)
  const place = { root: directory.path, reports: directory.path, log: directory.join("log"), retry }
  const groups = together ? [paths] : paths.map((path) => [path])
  const script = `import { Runner } from ${JSON.stringify(join(import.meta.dir, "runner.ts"))}
    process.env.CNI_RUNNER_TEST = "set"
    const runner = new Runner(${JSON.stringify(place)})
    await runner.tests(${JSON.stringify(groups)}, ${JSON.stringify(limits)}, 2)
    process.exitCode = runner.finish()`
  const { stdout, exitCode } = await execa(process.execPath, ["-e", script], { reject: false, stderr: "inherit" })
  return { lines: stdout.split("\n"), exitCode, log: readFileSync(place.log, "utf8") }
}

test("a variable that the command has set reaches the tests", async () => {
  const { lines } = await run({ a: 'if (process.env.CNI_RUNNER_TEST !== "set") throw new Error("no variable")' })
  expect(lines.at(-1)).toBe("1 passed, 0 failed")
}, 900_000)

test("each file that passes is one line, which has its number; what it prints is in the log", async () => {
  const { lines, exitCode, log } = await run({ a: 'console.log("noise")', b: good })
  const shown = lines
    .filter((line) => line.startsWith("file "))
    .map((line) => line.replace(/[\d.]+ s, [\d.]+ s of/, "1 s, 1 s of"))
  expect(shown.map((line) => line.replace(/[ab]\.test/, "x.test"))).toEqual([
    "file 1 of 2: ./x.test.ts: 1 passed, 1 s, 1 s of a processor",
    "file 2 of 2: ./x.test.ts: 1 passed, 1 s, 1 s of a processor",
  ])
  expect(lines.join("\n")).not.toContain("noise")
  expect(log).toContain("noise")
  expect([exitCode, lines.at(-1)]).toEqual([0, "2 passed, 0 failed"])
}, 900_000)

test.each([true, false])(
  "a file that fails once has failed (one run for all: %p)",
  async (together) => {
    const { lines, exitCode } = await run({ a: once, b: good }, { together, retry: false })
    expect(lines.join("\n")).toContain("too slow")
    expect(lines.filter((line) => /FLAKY|once more/.test(line))).toEqual([])
    expect([exitCode, lines.at(-1)]).toEqual([1, "1 passed, 1 failed"])
  },
  900_000,
)

test.each([true, false])(
  "with a retry, a file that fails and then passes alone is reported as flaky with both results, and is not a failure (one run for all: %p)",
  async (together) => {
    const { lines, exitCode } = await run({ a: once, b: good }, { together })
    const flaky = lines.filter((line) => line.startsWith("FLAKY: "))
    expect(flaky).toHaveLength(2)
    expect(flaky[0]).toMatch(/: 1 failed$/)
    expect(flaky[1]).toMatch(/^FLAKY: once more, alone: .*: 1 passed, [\d.]+ s, [\d.]+ s of a processor$/)
    expect(lines.slice(lines.findIndex((line) => line.startsWith("FLAKY"))).join("\n")).toContain("too slow")
    expect([exitCode, lines.at(-1)]).toEqual([0, "2 passed, 0 failed"])
  },
  900_000,
)

test("with a retry, a file that fails twice is a failure, counted once, and both outputs are shown", async () => {
  const { lines, exitCode } = await run({ a: bad, b: good })
  expect(lines).toContain("==> once more, alone: ./a.test.ts")
  const end = lines.slice(lines.indexOf("./a.test.ts, also alone: 1 failed"))
  expect(end.filter((line) => line.includes("error: broken"))).toHaveLength(2)
  expect(end).toContain("./a.test.ts, at first: 1 failed")
  expect([exitCode, lines.at(-1)]).toEqual([1, "1 passed, 1 failed"])
}, 900_000)

test("a file that dies is a failure with what it printed at last", async () => {
  const { lines, exitCode } = await run({ a: 'console.log("last words"); process.kill(process.pid, "SIGKILL")' })
  expect(lines).toContain("last words")
  expect([exitCode, lines.at(-1)]).toEqual([1, "0 passed, 1 failed"])
}, 900_000)

test("with a retry, where more than ten files fail none runs once more", async () => {
  const { lines, exitCode } = await run(Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`f${at}`, once])))
  expect(lines.filter((line) => line.startsWith("==> once more"))).toEqual([])
  expect([exitCode, lines.at(-1)]).toEqual([1, "0 passed, 11 failed"])
}, 900_000)
