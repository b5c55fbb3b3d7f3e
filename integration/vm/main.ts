/**
 * Runs integration tests on kernels that are not this machine's, each in a virtual machine on this machine's own root
 * file system. Needs root, a built `dist/`, and the Debian packages of `scripts/setup.sh tools peers vm`.
 *
 *   npm run test:vm                          on all of them
 *   bun integration/vm/main.ts qemu|uml      on one
 *
 * A test that this machine's kernel cannot run has to pass in one of the machines. Ends with `N passed, N failed`.
 */
import { join } from "node:path"
import { allFeatures, type LeftOut, leftOutLine, leftOutTests, runProgram } from "../lab/mod.ts"
import { type Judgement, judge } from "./judge.ts"
import type { Kernel } from "./kernel.ts"
import { runMachine } from "./machine.ts"
import { featureFiles, planJobs, readTestFiles, type TestFiles } from "./plan.ts"
import { qemu } from "./qemu.ts"
import { uml } from "./uml.ts"

const kernels = { qemu, uml }
type KernelName = keyof typeof kernels
const kernelNames = Object.keys(kernels) as KernelName[]

/** The tests that the kernel of this machine cannot run; no test runs to find out. */
async function leftOutHere(files: TestFiles): Promise<LeftOut[]> {
  const paths = featureFiles(files, allFeatures).map((name) => join(import.meta.dir, "..", name))
  if (paths.length === 0) return []
  const { stdout, stderr } = await runProgram([process.execPath, "test", "--test-name-pattern=(?!)", ...paths])
  if (!stderr.includes("matched 0 tests")) throw new Error(`Cannot list the tests that are left out here: ${stderr}`)
  return leftOutTests(stdout)
}

function show(title: string, { passed, leftOut, failures }: Judgement): void {
  console.log(`\n${title}: ${passed.length} passed, ${failures.length} failed`)
  for (const test of leftOut) console.log(`  ${leftOutLine(test)}`)
  for (const failure of failures) console.log(`  FAILED: ${failure}`)
}

/** Runs machines, all at once, and answers how many tests passed and how much failed. */
async function runMachines(names: readonly KernelName[]): Promise<{ passed: number; failed: number }> {
  const files = await readTestFiles(join(import.meta.dir, ".."))
  const here = await leftOutHere(files)
  const missing = allFeatures.filter((feature) => here.some((test) => test.missing.includes(feature)))
  const chosen = names.map((name): Kernel => kernels[name])
  const jobs = planJobs(chosen, files, missing)
  const results = await Promise.all(jobs.map(({ kernel, job }) => runMachine(kernel, job)))
  const judgements = jobs.map(({ kernel, job }, at) => {
    const judgement = judge(kernel, job, results[at])
    show(kernel.title, judgement)
    return judgement
  })
  const passed = judgements.flatMap((judgement) => judgement.passed)
  const nowhere = here.filter(({ title }) => !passed.includes(title))
  const isComplete = names.length === kernelNames.length
  for (const test of nowhere) console.log(`${isComplete ? "FAILED: " : ""}neither here nor in a machine: ${test.title}`)
  const failures = judgements.flatMap((judgement) => judgement.failures)
  return { passed: passed.length, failed: failures.length + (isComplete ? nowhere.length : 0) }
}

if (import.meta.main) {
  const asked = process.argv.slice(2)
  const unknown = asked.find((name) => !Object.hasOwn(kernels, name))
  if (unknown !== undefined) {
    console.error(`Unknown machine "${unknown}": choose from ${kernelNames.join(", ")}`)
    process.exit(2)
  }
  const { passed, failed } = await runMachines(kernelNames.filter((name) => asked.length === 0 || asked.includes(name)))
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
}
