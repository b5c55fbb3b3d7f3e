/**
 * Everything that has to hold before a change goes in.
 *
 *   npm test               the gate, then the build and the integration tests; needs root
 *   npm run gate           the gate: format, lint, types, unit tests; needs nothing
 *   npm run test:interop   the built plugins under podman and containerd, and beside the Go plugins; needs root
 *   npm run test:browser   the pictures that cni draws, in headless Chromium; needs root
 *   npm run test:arm64     the plugins for arm64, under QEMU; needs root
 *   npm run test:sanitized integration tests of each plugin and verb with plugins that AddressSanitizer and UndefinedBehaviorSanitizer
 *                          watch, and the quick form of the tests of garbage; needs root
 *   npm run test:faults    the long form of what `npm test` has of kills, errors, storms and garbage: an hour or more; needs root.
 *                          `npm run test:faults -- storm` runs the files that have `storm` in their path
 *   npm run conformance    the tests that hold the statements of docs/conformance.md, and for each what holds it;
 *                          needs root; `npm run --silent conformance -- --json` prints JSON
 *
 * Goes through all steps even when a step fails, and ends with the line `N passed, N failed`; a step that is not a test counts
 * as one failure when it fails, and so does a test file that dies or hangs. `npm test` and `npm run conformance` also
 * count one failure for each statement of docs/conformance.md that does not hold.
 */
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { readFigures, TemporaryDirectory, unmatchedTelling } from "../integration/lab/mod.ts"
import { readReports, sanitizedPlugins } from "./sanitized.ts"
import { type Conformance, failuresOf, judge } from "./test/conformance.ts"
import { formatReport, jsonReport, summaryOf } from "./test/conformance-report.ts"
import { mayHaveNumbers } from "./test/numbers.ts"
import { Runner } from "./test/runner.ts"
import { parseStatements } from "./test/statements.ts"

const root = join(import.meta.dir, "..")
const tool = (name: string) => join(root, "node_modules/.bin", name)

/** How many test files run at a time: most of them wait for packets, locks and programs for half of their time. */
const lanes = availableParallelism() + 2

/** The rooms whose `x.test.ts` need neither root nor network. */
const unitRooms = ["pkg", "plugins", "ipam", "meta", "tools", "cmd", "bench", "scripts"]

function testFiles(rooms: readonly string[]): string[] {
  return [...new Bun.Glob(`{${rooms.join(",")}}/**/*.test.ts`).scanSync(root)].map((file) => `./${file}`).sort()
}

async function gate(runner: Runner): Promise<void> {
  await runner.step("format and lint", [tool("biome"), "ci", "--colors=off", "."])
  await runner.step("types", [tool("tsc"), "-p", ".", "--noEmit"])
  await unit(runner, testFiles(unitRooms))
}

async function unit(runner: Runner, files: readonly string[]): Promise<void> {
  // Without files `bun test` would run all there are.
  if (files.length > 0) await runner.tests("unit tests", files, { testMs: 30_000, fileMs: 400_000 })
}

function isRoot(runner: Runner): boolean {
  if (process.getuid?.() === 0) return true
  runner.fail("The integration tests make network namespaces, which needs root: run this as root")
  return false
}

/** Tests of the built executable. */
async function integration(runner: Runner, files: readonly string[]): Promise<void> {
  if (files.length === 0 || !isRoot(runner)) return
  if (!(await runner.step("build", [process.execPath, "scripts/build.ts"]))) return
  await runner.eachFile(files, { testMs: 120_000, fileMs: 900_000 }, lanes)
}

/** The integration tests that sanitizers watch: each plugin, each verb, both packet filters, what fails and what is undone. */
const watched = [
  "bridge/{add,chained,check,del,masquerade,spoof,undo,vlan}",
  "dhcp/{lease,lease6}",
  "every-plugin/{bad-input,interface-del,interface-undo,interface-versions,unwritten-answer}",
  "flannel/{add,delegate}",
  "host-local/interop",
  "loopback/loopback",
  "portmap/{add,nftables}",
  "ptp/{add,del,undo}",
  "sbr/{addresses,sbr}",
  "static/static",
  "tuning/{add,undo}",
]

async function sanitized(runner: Runner): Promise<void> {
  if (!isRoot(runner)) return
  const build = [process.execPath, "scripts/sanitized.ts"]
  if (!(await runner.step("build with sanitizers", build, 1_800_000))) return // the engine takes a while
  process.env.CNI_TEST_PLUGINS = sanitizedPlugins
  const files: string[] = []
  for (const pattern of watched) {
    const names = [...new Bun.Glob(`${pattern}.test.ts`).scanSync(join(root, "integration"))]
    if (names.length === 0) runner.fail(`No test file is called integration/${pattern}`)
    files.push(...names.map((name) => `./integration/${name}`))
  }
  // What takes longest begins first.
  const garbage = "./integration/faults/garbage.test.ts"
  await runner.eachFile([garbage, ...files], { testMs: 900_000, fileMs: 3_600_000 }, lanes)
  for (const report of readReports()) runner.fail(report)
}

/** Judges the statements of docs/conformance.md by the tests that have run; counts those that do not hold. */
async function conformance(runner: Runner): Promise<Conformance> {
  const list = parseStatements(await Bun.file(join(root, "docs/conformance.md")).text())
  const judged = judge(list, runner.testCases)
  for (const failure of failuresOf(judged)) runner.fail(failure)
  return judged
}

async function withNumbers(files: readonly string[]): Promise<string[]> {
  const sources = await Promise.all(files.map((file) => Bun.file(join(root, file)).text()))
  return files.filter((_, at) => mayHaveNumbers(sources[at] ?? ""))
}

/** The tests in namespaces; those that need real runtimes, a cross compiler or another build are asked for by themselves. */
function integrationFiles(kind: "namespaces" | "interop" | "arm64" | "browser"): string[] {
  const kindOf = (file: string) =>
    /^\.\/integration\/(interop|arm64|browser|sanitized)\//.exec(file)?.[1] ?? "namespaces"
  return testFiles(["integration"]).filter((file) => kindOf(file) === kind)
}

/** The tests that have a long form, which tell figures of it. Bun's globs know no slash inside braces. */
const withLongForm = [
  "integration/faults/*.test.ts",
  "integration/executable/memory.test.ts",
  "integration/dhcp/{hostile,killed-daemon,many}.test.ts",
  "ipam/dhcp/protocol/fuzz.test.ts",
]

/** Runs the long form of the tests of faults that have one of these words in their path, and prints what was tried and held. */
async function faults(runner: Runner, words: readonly string[]): Promise<void> {
  const figures = join(root, "dist/faults.jsonl")
  await Bun.write(figures, "")
  process.env.CNI_FAULTS = "long"
  process.env.CNI_FAULTS_FIGURES = figures
  const all = withLongForm.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(root)].sort())
  const files = all.filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  if (!isRoot(runner) || !(await runner.step("build", [process.execPath, "scripts/build.ts"]))) return
  const paths = files.map((file) => `./${file}`)
  await runner.eachFile(paths, { testMs: 7_200_000, fileMs: 14_400_000 }, lanes)
  for (const row of readFigures(await Bun.file(figures).text())) console.log(row)
}

if (import.meta.main) {
  const asked = new Set(process.argv.slice(2))
  await using reports = await TemporaryDirectory.create("cni-reports")
  const runner = new Runner(root, reports.path, asked.has("--json") ? 2 : 1)
  let summary: string | undefined
  if (asked.has("--interop")) await integration(runner, integrationFiles("interop"))
  else if (asked.has("--browser")) await integration(runner, integrationFiles("browser"))
  else if (asked.has("--arm64")) await integration(runner, integrationFiles("arm64"))
  else if (asked.has("--gate")) await gate(runner)
  else if (asked.has("--faults")) {
    const words = process.argv.slice(2).filter((word) => !word.startsWith("--"))
    await faults(runner, words)
  } else if (asked.has("--sanitized")) await sanitized(runner)
  else if (asked.has("--conformance")) {
    await unit(runner, await withNumbers(testFiles(unitRooms)))
    await integration(runner, await withNumbers(integrationFiles("namespaces")))
    const judged = await conformance(runner)
    console.log(asked.has("--json") ? JSON.stringify(jsonReport(judged), undefined, 2) : `\n${formatReport(judged)}`)
    summary = summaryOf(judged)
  } else {
    await gate(runner)
    await integration(runner, integrationFiles("namespaces"))
    for (const pattern of unmatchedTelling(runner.testCases.map(({ titles }) => titles.at(-1) ?? ""))) {
      runner.fail(
        `No test is called like ${pattern}, which integration/lab/cases.ts has among those of similar plugins`,
      )
    }
    summary = summaryOf(await conformance(runner))
  }
  process.exitCode = runner.finish(summary)
}
