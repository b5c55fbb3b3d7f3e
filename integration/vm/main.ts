/**
 * Runs integration tests on kernels other than this machine's, each in a virtual machine on this machine's own root
 * file system. Needs root, a built `dist/`, and the Debian packages of `scripts/setup.sh tools peers vm`.
 *
 *   npm run test:vm                                  on all kernels
 *   npm run test:vm -- --sample                      on uml, without faults/; one plugin of a role runs a shared case
 *   bun integration/vm/main.ts qemu|uml              on one kernel; also uml-without-ipv6 and qemu-without-ipv6
 *   bun integration/vm/main.ts uml --faults killed   the long form of `integration/faults/killed*` on one kernel
 *
 * A test that this machine's kernel cannot run must pass in one of the machines; with `--sample`, only those of
 * uml must. Ends with `N passed, N failed`.
 */
import { join } from "node:path"
import { parseArgs } from "node:util"
import { allFeatures, type LeftOut, leftOutLine, leftOutTests, programEnv, runProgram } from "../lab/mod.ts"
import { inReports } from "./job.ts"
import { type Judgement, judge } from "./judge.ts"
import type { Kernel } from "./kernel.ts"
import { runMachine } from "./machine.ts"
import { featureFiles, planJobs, readTestFiles, type TestFiles } from "./plan.ts"
import { qemu, qemuWithoutIpv6 } from "./qemu.ts"
import { uml, umlWithoutIpv6 } from "./uml.ts"

const kernels = { qemu, uml, "qemu-without-ipv6": qemuWithoutIpv6, "uml-without-ipv6": umlWithoutIpv6 }
type KernelName = keyof typeof kernels
const kernelNames = Object.keys(kernels) as KernelName[]

/**
 * The number of machines that run at the same time. It is small because each machine uses a processor, and CI runs
 * other tests during that time.
 */
const AT_ONCE = 2

/** Returns the tests that this machine's kernel cannot run. Does not run tests to find them. */
async function leftOutHere(files: TestFiles, kinds: Readonly<Record<string, string>>): Promise<LeftOut[]> {
  const paths = featureFiles(files, allFeatures).map((name) => join(import.meta.dir, "..", name))
  if (paths.length === 0) return []
  const list = [process.execPath, "test", "--test-name-pattern=(?!)", ...paths]
  const { stdout, stderr } = await runProgram(list, { env: { ...programEnv, ...kinds } })
  const hasRunNone = /matched 0 tests|^Ran 0 tests /m.test(stderr) // the second text if all tests are skipped
  if (!hasRunNone) throw new Error(`Cannot list the tests that are left out here: ${stderr}`)
  return leftOutTests(stdout)
}

function show(title: string, { passed, leftOut, failures }: Judgement): void {
  console.log(`\n${title}: ${passed.length} passed, ${failures.length} failed`)
  for (const test of leftOut) console.log(`  ${leftOutLine(test)}`)
  for (const failure of failures) console.log(`  FAILED: ${failure}`)
}

/** The variables that select the extent of a long form; see docs/develop/testing.md. */
const choices = ["CNI_TEST_SEED", "CNI_FAULTS_ROUNDS", "CNI_FAULTS_SHARE"]

/** Returns the environment variables for the long form of a test in a machine. */
function longEnv(): Record<string, string> {
  const chosen = choices.map((name) => [name, process.env[name]]).filter(([, value]) => value !== undefined)
  return { ...Object.fromEntries(chosen), CNI_FAULTS: "long", CNI_FAULTS_FIGURES: inReports("/run/reports").figures }
}

/**
 * Runs machines in parallel. Returns the numbers of passed tests and of failures. If `faults` is given, runs the long
 * form of the fault tests whose names begin with that word.
 */
async function runMachines(
  names: readonly KernelName[],
  { faults: word, sample = false }: { faults?: string | undefined; sample?: boolean | undefined },
): Promise<{ passed: number; failed: number }> {
  const kinds = { ...(sample && { CNI_TEST_KINDS: "one" }) }

  const all = await readTestFiles(join(import.meta.dir, ".."))
  const isSelected = (name: string) =>
    word === undefined ? !(sample && name.startsWith("faults/")) : name.startsWith(`faults/${word}`)
  const files = new Map([...all].filter(([name]) => isSelected(name)))
  const here = await leftOutHere(files, kinds)
  const missing = allFeatures.filter((feature) => here.some((test) => test.missing.includes(feature)))
  const long = word === undefined ? {} : { files: [], limitMs: 14_400_000 }
  const isComplete = word === undefined && (sample || names.length === kernelNames.length)
  const whole = isComplete ? {} : { only: undefined }
  // Plan for all kernels, because a test stays with the kernel that was added for it, even if that machine is not
  // started now.
  const planned = kernelNames.map((name): Kernel => ({ ...kernels[name], ...whole, ...long }))
  const plans = planJobs(planned, files, missing)
  const isAsked = (_: unknown, at: number) => names.some((name) => name === kernelNames[at])
  const jobs = plans.filter(isAsked)
  const others = plans.filter((plan) => !jobs.includes(plan))
  for (const { kernel } of others) console.log(`Not run: ${kernel.title}`)
  const patterns = others.flatMap(({ job }) => job.runs.map(({ pattern }) => pattern))
  const env = { ...kinds, ...(word !== undefined && longEnv()) }
  const results: Awaited<ReturnType<typeof runMachine>>[] = []
  const waiting = jobs.entries() // shared by all loops: a new machine starts when one ends
  const runSome = async () => {
    for (const [at, { kernel, job }] of waiting) results[at] = await runMachine(kernel, { ...job, env })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, runSome))
  const judgements = jobs.map(({ kernel, job }, at) => {
    const judgement = judge(kernel, job, results[at])
    show(kernel.title, judgement)
    return judgement
  })
  const passed = judgements.flatMap((judgement) => judgement.passed)
  const isElsewhere = (title: string) => patterns.some((pattern) => pattern && new RegExp(pattern).test(title))
  const nowhere = here.filter(({ title }) => !passed.includes(title) && !isElsewhere(title))
  for (const test of nowhere) console.log(`${isComplete ? "FAILED: " : ""}neither here nor in a machine: ${test.title}`)
  const failures = judgements.flatMap((judgement) => judgement.failures)
  return { passed: passed.length, failed: failures.length + (isComplete ? nowhere.length : 0) }
}

if (import.meta.main) {
  const options = { faults: { type: "string" }, sample: { type: "boolean" } } as const
  const { values, positionals: asked } = parseArgs({ allowPositionals: true, options })
  const unknown = asked.find((name) => !kernelNames.some((known) => known === name))
  if (unknown !== undefined) {
    console.error(`Unknown machine "${unknown}": choose from ${kernelNames.join(", ")}`)
    process.exit(2)
  }
  const isWanted = (name: KernelName) =>
    asked.includes(name) || (asked.length === 0 && (!values.sample || name === "uml"))
  const names = kernelNames.filter(isWanted)
  const { passed, failed } = await runMachines(names, values)
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
}
