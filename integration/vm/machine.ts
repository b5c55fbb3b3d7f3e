import { join } from "node:path"
import { execa } from "execa"
import { TemporaryDirectory } from "../mod.ts"
import { makeInitramfs } from "./initramfs.ts"
import { inReports, type Job, type Verdict } from "./job.ts"
import type { Results } from "./judge.ts"
import type { Kernel } from "./kernel.ts"
import { parseTestCases, type TestCase } from "./test-report.ts"

const checkout = join(import.meta.dir, "../..")

/**
 * Starts a machine on this machine's root file system, which it cannot write to, gives it a job, and shows its console.
 * Returns what it did, or nothing when it ended without a verdict or was killed at its time limit.
 */
export async function runMachine(kernel: Kernel, job: Job): Promise<Results | undefined> {
  await using scratch = await TemporaryDirectory.create("cni-vm")
  await using reports = await TemporaryDirectory.create("cni-vm-reports")
  const { image, modules } = await kernel.find()
  const settings = { share: kernel.share, reports: reports.path, modules, checkout }
  const initramfs = await makeInitramfs(scratch.path, settings, kernel.initModules)
  const paths = inReports(reports.path)
  await Bun.write(paths.job, JSON.stringify(job))
  await runToItsEnd(kernel.command({ image, initramfs, reports: reports.path }), kernel.limitMs)
  if (!(await Bun.file(paths.verdict).exists())) return undefined
  const found = job.runs.map((_, at) => readReport(paths.junit(at)))
  return { verdict: (await Bun.file(paths.verdict).json()) as Verdict, reports: await Promise.all(found) }
}

/** Runs a machine with its console on stdout. It is killed at the time limit, and when this process ends. */
async function runToItsEnd(command: readonly string[], timeout: number): Promise<void> {
  const { timedOut, durationMs, exitCode, signal } = await execa("setpriv", ["--pdeathsig", "KILL", ...command], {
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
    reject: false,
    timeout,
    killSignal: "SIGKILL",
  })
  const how = timedOut ? "was killed at its time limit" : `ended with ${exitCode ?? signal}`
  console.log(`\nThe machine ${how} after ${(durationMs / 1000).toFixed(1)} s`)
}

async function readReport(file: string): Promise<TestCase[] | undefined> {
  return (await Bun.file(file).exists()) ? parseTestCases(await Bun.file(file).text()) : undefined
}
