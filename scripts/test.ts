/**
 * Runs the tests. `modes` below lists the kinds of runs.
 *
 *   npm test                       the gate, the build, and the integration tests that are not long
 *   npm run test:all               also the long tests; every statement of scripts/test/statements.txt needs a test
 *   bun scripts/test.ts --MODE     one of the modes, such as --gate; npm has a command for each
 *
 * All steps run even if one fails, and each test file gets one line. The output of the tests is in dist/test.log;
 * failures are printed at the end. With `--retry` a file that fails runs once more, alone, after the others. If it
 * fails again, that counts; if it passes, it is reported as FLAKY with the first output. If more than ten files fail,
 * none runs again.
 *
 * The last line is `N passed, N failed`. The exit code is 0 if nothing failed. Each of these counts as one failure: a
 * step that is not a test, a test file that crashes or hangs, and a statement of scripts/test/statements.txt that does
 * not hold.
 */
import { rm } from "node:fs/promises"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { readFigures, TemporaryDirectory } from "../integration/lab/mod.ts"
import { goPrograms } from "./go-programs.ts"
import { readReports, sanitizedPlugins } from "./sanitized.ts"
import { type Conformance, failuresOf, judge } from "./test/conformance.ts"
import { formatReport, jsonReport, summaryOf } from "./test/conformance-report.ts"
import { mayHaveNumbers } from "./test/numbers.ts"
import { emptyLog, Runner } from "./test/runner.ts"
import { parseStatements } from "./test/statements.ts"

const root = join(import.meta.dir, "..")
const tool = (name: string) => join(root, "node_modules/.bin", name)

/** The time limits end only tests that hang. With ten other programs per processor, tests take ten times as long. */
const limits = { testMs: 900_000, fileMs: 3_600_000 }

/** The number of test files that run at the same time, each of which waits for two thirds of its time. */
const lanes = 2 * availableParallelism() + 2

/** The rooms whose `x.test.ts` files need neither root nor a network. */
const unitRooms = ["pkg", "plugins", "ipam", "meta", "agent", "install", "tools", "cmd", "bench", "scripts"]

function testFiles(rooms: readonly string[]): string[] {
  return [...new Bun.Glob(`{${rooms.join(",")}}/**/*.test.ts`).scanSync(root)].map((file) => `./${file}`).sort()
}

/** Runs the checks and the unit tests at the same time, because the compiler and each `bun test` use about one CPU. */
async function gate(runner: Runner): Promise<void> {
  const slow = new Set(slowUnitFiles())
  const files = testFiles(unitRooms).filter((file) => !slow.has(file))
  await Promise.all([checks(runner), unit(runner, files)])
}

async function checks(runner: Runner): Promise<void> {
  await runner.step("format and lint", [tool("biome"), "ci", "--colors=off", "."])
  const buildInfo = ["--incremental", "--tsBuildInfoFile", "dist/types.tsbuildinfo"]
  await runner.step("types", [tool("tsc"), "-p", ".", "--noEmit", ...buildInfo])
}

/**
 * Returns the unit test files that wait, start hundreds of programs, or start the compiler. The gate does not run these
 * files; `npm test` runs them beside the integration tests.
 */
function slowUnitFiles(): string[] {
  return filesOf([
    "agent/api/follow.test.ts",
    "cmd/{completion,main}.test.ts",
    "install/kill.test.ts",
    "ipam/host-local/crash.test.ts",
    "pkg/libcni/docs.test.ts",
    "scripts/bundle.test.ts",
    "scripts/test/{example-plugin,runner}.test.ts",
  ])
}

/** Returns the files that match patterns. Throws if a pattern matches none. */
function filesOf(patterns: readonly string[]): string[] {
  return patterns.flatMap((pattern) => {
    const files = [...new Bun.Glob(pattern).scanSync(root)].sort().map((file) => `./${file}`)
    if (files.length === 0) throw new Error(`No test file matches "${pattern}"`)
    return files
  })
}

async function unit(runner: Runner, files: readonly string[]): Promise<void> {
  // Two runs keep two CPUs busy. Without files `bun test` would run all tests.
  const halves = [0, 1].map((half) => files.filter((_, at) => at % 2 === half)).filter(({ length }) => length > 0)
  await runner.tests(halves, limits, halves.length)
}

function isRoot(runner: Runner): boolean {
  if (process.getuid?.() === 0) return true
  runner.fail("The integration tests make network namespaces, which needs root: run this as root")
  return false
}

/** Returns one group per file, so that each file has its own `bun test` and does not affect the others. */
const alone = (files: readonly string[]) => files.map((file) => [file])

/**
 * The files that wait the longest. They begin first, because they would otherwise end alone, with all other lanes idle.
 */
const longestWaits = [
  "integration/dhcp/lease.test.ts",
  "integration/every-plugin/del.test.ts",
  "integration/firewall/{forward-drop,policies}.test.ts",
  "integration/host-device/verbs.test.ts",
  "integration/portmap/{add,del}.test.ts",
  "integration/reconcile/listener.test.ts",
]

async function integration(runner: Runner, files: readonly string[]): Promise<void> {
  if (files.length === 0 || !isRoot(runner)) return
  if (!(await runner.step("build", [process.execPath, "scripts/build.ts"]))) return
  const first = new Set(filesOf(longestWaits))
  const ordered = [...files.filter((file) => first.has(file)), ...files.filter((file) => !first.has(file))]
  await runner.tests(alone(ordered), limits, lanes)
}

/** The tests to run with sanitizers: each plugin, each verb, both packet filters, failures, undo, some of the tool. */
const watched = [
  "bridge/{add,chained,check,masquerade,spoof,undo,vlan}",
  "cni/{diff,doctor,dry-run,explain,gc,graph,left-behind,lint,ps,reattach,trace}",
  "dhcp/{lease,lease6}",
  "every-plugin/{bad-input,interface-del,interface-undo,unwritten-answer}",
  "flannel/{add,delegate}",
  "host-local/interop",
  "loopback/loopback",
  "portmap/{add,nftables}",
  "ptp/{add,del,undo}",
  "sbr/{addresses,sbr}",
  "static/static",
  "tuning/{add,undo}",
]

/** Those of `watched` to run with `--sample`: each plugin and verb, undo, one report of the tool. */
const watchedSample = [
  "bridge/{add,masquerade,undo}",
  "cni/{gc,ps}",
  "dhcp/lease",
  "every-plugin/bad-input",
  "flannel/add",
  "host-local/interop",
  "loopback/loopback",
  "portmap/add",
  "ptp/{add,undo}",
  "sbr/sbr",
  "static/static",
  "tuning/add",
]

async function sanitized(runner: Runner, words: readonly string[]): Promise<void> {
  if (!isRoot(runner)) return
  const build = [process.execPath, "scripts/sanitized.ts"]
  if (!(await runner.step("build with sanitizers", build, 1_800_000))) return // compiling the engine takes long
  process.env.CNI_TEST_PLUGINS = sanitizedPlugins
  const files: string[] = []
  for (const pattern of words.includes("--sample") ? watchedSample : watched) {
    const names = [...new Bun.Glob(`${pattern}.test.ts`).scanSync(join(root, "integration"))]
    if (names.length === 0) runner.fail(`No test file is called integration/${pattern}`)
    files.push(...names.map((name) => `./integration/${name}`))
  }
  // The longest test begins first.
  const garbage = "./integration/faults/garbage.test.ts"
  await runner.tests(alone([garbage, ...files]), limits, lanes)
  for (const report of readReports()) runner.fail(report)
}

/**
 * Judges statements of scripts/test/statements.txt by the finished tests, and counts failures. `which` says whether all
 * statements count, or only those with a finished test.
 */
async function judgeStatements(runner: Runner, which: "all" | "those tested"): Promise<Conformance> {
  const list = parseStatements(await Bun.file(join(root, "scripts/test/statements.txt")).text())
  const judged = judge(list, runner.testCases)
  const counted =
    which === "all" ? judged : { ...judged, judgements: judged.judgements.filter(({ tests }) => tests.length > 0) }
  for (const failure of failuresOf(counted)) runner.fail(failure)
  return judged
}

async function withNumbers(files: readonly string[]): Promise<string[]> {
  const sources = await Promise.all(files.map((file) => Bun.file(join(root, file)).text()))
  return files.filter((_, at) => mayHaveNumbers(sources[at] ?? ""))
}

/** Directories of tests that need real runtimes, a cross compiler or another build, and so have their own commands. */
const roomsOfTheirOwn = [
  "interop",
  "npm",
  "arm64",
  "offline",
  "browser",
  "sanitized",
  "kubernetes",
  "release",
  "runtimes",
] as const

/** Returns the tests in one of these directories, or without `room` all other integration tests. */
function integrationFiles(room?: (typeof roomsOfTheirOwn)[number]): string[] {
  const roomOf = (file: string) => roomsOfTheirOwn.find((each) => file.startsWith(`./integration/${each}/`))
  return testFiles(["integration"]).filter((file) => roomOf(file) === room)
}

/** The tests that have a long form, which prints figures. Patterns repeat, because braces cannot contain a slash. */
const withLongForm = [
  "integration/faults/*.test.ts",
  "integration/executable/memory.test.ts",
  "integration/install/{killed,power-cut}.test.ts",
  "integration/migrate/{killed,moves,switch}.test.ts",
  "integration/reconcile/{killed,killed-command,orders,outage,storm}.test.ts",
  "integration/cni/faults*.test.ts",
  "integration/dhcp/{hostile,killed-daemon,many}.test.ts",
  "ipam/dhcp/protocol/fuzz.test.ts",
]

/** Runs the long form of the tests whose path contains one of the words, and prints the number of tries. */
async function faults(runner: Runner, words: readonly string[]): Promise<void> {
  const figures = await beginLongForm()
  const all = withLongForm.flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(root)].sort())
  const files = all.filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  if (!isRoot(runner) || !(await runner.step("build", [process.execPath, "scripts/build.ts"]))) return
  const paths = files.map((file) => [`./${file}`])
  await runner.tests(paths, { testMs: 7_200_000, fileMs: 14_400_000 }, lanes)
  for (const row of readFigures(await Bun.file(figures).text())) console.log(row)
}

/** Selects the long form of tests. Returns the path of the file to which they append figures. */
async function beginLongForm(): Promise<string> {
  const figures = join(root, "dist/faults.jsonl")
  await Bun.write(figures, "")
  process.env.CNI_FAULTS = "long"
  process.env.CNI_FAULTS_FIGURES = figures
  return figures
}

/** The newest runtimes that the Go module proxy has completely, and kustomize, which renders deploy's manifests. */
const newestRuntimes = ["containerd", "nerdctl", "cri-o", "kustomize"] as const

/** Builds the newest containerd, kubelet and other runtimes, and runs the tests that start pods with them. */
async function runtimes(runner: Runner): Promise<void> {
  const build = [process.execPath, "scripts/go-programs.ts", ...newestRuntimes, "kubelet"]
  if (!(await runner.step(`${newestRuntimes.join(", ")}, kubelet`, build, 10_800_000))) return
  process.env.CNI_RUNTIME_PROGRAMS = (await Promise.all(newestRuntimes.map(goPrograms))).join(":")
  const byContainerd = ["containerd", "crash", "flush", "install", "pods"].map(
    (name) => `./integration/interop/${name}.test.ts`,
  )
  await integration(runner, [...byContainerd, ...integrationFiles("runtimes")])
}

/** Creates the files of a release once, and runs all tests of these files. */
async function release(runner: Runner): Promise<void> {
  const files = join(root, "dist/release-under-test")
  await rm(files, { recursive: true, force: true })
  const make = [process.execPath, "integration/release/sample.ts", files]
  if (!isRoot(runner) || !(await runner.step("the files of a release", make, 1_800_000))) return
  process.env.CNI_TEST_RELEASE = files
  await integration(runner, integrationFiles("release"))
}

/** Returns the long tests of rare cases: every kind of kill and error, whole tables of faults, many containers. */
function longFiles(): string[] {
  return filesOf([
    "install/kill.test.ts",
    "integration/cni/{connectivity,doctor-containers,packet-states,trace-inbound}.test.ts",
    "integration/cni/faults*.test.ts",
    "integration/dhcp/many.test.ts",
    "integration/every-plugin/{example-plugin,long-lists,stalls}.test.ts",
    "integration/every-plugin/differential/*.test.ts",
    "integration/executable/{archive,image,memory,scratch-root,starts}.test.ts",
    "integration/faults/*.test.ts",
    "integration/firewall/firewalld-hostile.test.ts",
    "integration/host-local/large.test.ts",
    "integration/install/{killed,power-cut,refused}.test.ts",
    "integration/masquerade/upgrade.test.ts",
    "integration/migrate/{killed,moves,refused}.test.ts",
    "integration/portmap/{many,standby,standby-nftables}.test.ts",
    "integration/reconcile/{killed,killed-command,storm}.test.ts",
    "integration/upgrade/upgrade.test.ts",
    "ipam/host-local/crash.test.ts",
    "scripts/test/example-plugin.test.ts",
  ])
}

/**
 * Runs the gate, slow unit tests and integration tests but the long ones. Cases for all plugins run for half of them.
 */
async function short(runner: Runner): Promise<void> {
  process.env.CNI_TEST_KINDS = "half"
  await gate(runner)
  const long = new Set(longFiles())
  await integration(
    runner,
    [...slowUnitFiles(), ...integrationFiles()].filter((file) => !long.has(file)),
  )
  await judgeStatements(runner, "those tested")
}

async function everything(runner: Runner): Promise<void> {
  await gate(runner)
  await integration(runner, [...slowUnitFiles(), ...integrationFiles()])
  runner.summarize(summaryOf(await judgeStatements(runner, "all")))
}

/** Runs the tests of statements, and prints each statement with its tests. */
async function conformance(runner: Runner, words: readonly string[]): Promise<void> {
  await unit(runner, await withNumbers(testFiles(unitRooms)))
  await integration(runner, await withNumbers(integrationFiles()))
  const judged = await judgeStatements(runner, "all")
  console.log(words.includes("--json") ? JSON.stringify(jsonReport(judged), undefined, 2) : `\n${formatReport(judged)}`)
  runner.summarize(summaryOf(judged))
}

/** Runs the tests of a mode. `words` are the remaining arguments. */
type Mode = (runner: Runner, words: readonly string[]) => Promise<void>

const modes: Readonly<Record<string, Mode>> = {
  /** `npm test`. This and all modes below except `gate` need root. */
  short,
  /** `npm run test:all`. */
  all: everything,
  /** Format, lint, types and unit tests, which need neither root nor a network. */
  gate,
  /** The built plugins with podman and containerd, and compared with the Go plugins. */
  interop: (runner) => integration(runner, integrationFiles("interop")),
  /**
   * The npm package, installed from its archive: on Node 20, 22, 24 and Bun, with three compilers, and beside a runtime
   * that uses Go's libcni.
   */
  npm: (runner) => integration(runner, integrationFiles("npm")),
  /** The pictures that `cni graph` draws, in headless Chromium. */
  browser: (runner) => integration(runner, integrationFiles("browser")),
  /**
   * The agents with a real kube-apiserver, which is built if this machine does not have it. The build takes 12 minutes.
   */
  async kubernetes(runner) {
    const build = [process.execPath, "scripts/go-programs.ts", "kube-proxy", "kube-apiserver"]
    if (!(await runner.step("kube-proxy, kube-apiserver", build, 10_800_000))) return
    await integration(runner, integrationFiles("kubernetes"))
  },
  /** The newest containerd, nerdctl, CRI-O and kubelet, built if this machine lacks them, which takes 45 minutes. */
  runtimes,
  /** Packages of a sample of files, which the programs of their distributions read, install and run. */
  release,
  /** The plugins for arm64, under QEMU. */
  arm64: (runner) => integration(runner, integrationFiles("arm64")),
  /** Archives that are built without a network, from a filled directory, and with a packager's own inputs. */
  offline: (runner) => integration(runner, integrationFiles("offline")),
  /**
   * Integration tests of each plugin and verb with AddressSanitizer and UndefinedBehaviorSanitizer, and random calls;
   * with `--sample`, only a part of them.
   */
  sanitized,
  /**
   * The long form of the tests of kills, errors, storms and garbage; with words, only files whose path contains a word.
   */
  faults,
  /** The tests of the statements in scripts/test/statements.txt, and the results, with `--json` as JSON. */
  conformance,
}

if (import.meta.main) {
  const words = process.argv.slice(2)
  const [first = "--short", ...rest] = words.filter((word) => word !== "--retry")
  const mode = modes[first.replace(/^--/, "")]
  if (mode === undefined) {
    console.error(`Unknown mode "${first}": choose from --${Object.keys(modes).join(", --")}`)
    process.exit(2)
  }
  await using reports = await TemporaryDirectory.create("cni-reports")
  const log = join(root, "dist/test.log")
  await emptyLog(log)
  const show = rest.includes("--json") ? 2 : 1
  const runner = new Runner({ root, reports: reports.path, log, show, retry: words.includes("--retry") })
  await mode(runner, rest)
  process.exitCode = runner.finish()
}
