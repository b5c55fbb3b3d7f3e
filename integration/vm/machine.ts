import { join } from "node:path"
import { execa } from "execa"
import { parseTestCases, type TestCase } from "../../scripts/test/test-cases.ts"
import { readFigures, TemporaryDirectory } from "../lab/mod.ts"
import { makeInitramfs } from "./initramfs.ts"
import { inReports, type Job, type Verdict } from "./job.ts"
import type { Results } from "./judge.ts"
import type { Kernel } from "./kernel.ts"

const checkout = join(import.meta.dir, "../..")

/**
 * Starts a machine on this machine's read-only root file system and gives it a job. Prints the kernel's title before
 * each line of the console, because machines may run in parallel. Reboots the machine with the same disk for runs after
 * a reboot. Returns the results, or undefined if the machine ended without results or exceeded its time limit.
 */
export async function runMachine(kernel: Kernel, job: Job): Promise<Results | undefined> {
  await using scratch = await TemporaryDirectory.create("cni-vm-disk")
  const disk = await makeDisk(scratch.join("disk"))
  const boots = [job.runs.filter((run) => !run.isAfterReboot), job.runs.filter((run) => run.isAfterReboot)]
  let all: Results | undefined
  for (const runs of boots.filter(({ length }) => length > 0)) {
    const results = await bootMachine(kernel, { ...job, runs }, disk)
    if (!results) return undefined
    const outcomes = [...(all?.verdict.outcomes ?? []), ...results.verdict.outcomes]
    const reports = [...(all?.reports ?? []), ...results.reports]
    all = {
      verdict: { ...results.verdict, outcomes },
      reports,
      figures: [...(all?.figures ?? []), ...(results.figures ?? [])],
    }
  }
  return all
}

/** Creates the sparse image of a disk with an empty ext4 file system. */
async function makeDisk(path: string): Promise<string> {
  await execa("truncate", ["--size=64M", path])
  await execa("mkfs.ext4", ["-q", "-F", path], { env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } })
  return path
}

/** Starts a machine once, and waits until it powers off. */
async function bootMachine(kernel: Kernel, job: Job, disk: string): Promise<Results | undefined> {
  await using scratch = await TemporaryDirectory.create("cni-vm")
  await using reports = await TemporaryDirectory.create("cni-vm-reports")
  const { modules, ...program } = await kernel.find(scratch.path)
  const settings = { share: kernel.share, reports: reports.path, modules, checkout }
  const initramfs = await makeInitramfs(scratch.path, settings, kernel.initModules)
  const paths = inReports(reports.path)
  await Bun.write(paths.job, JSON.stringify(job))
  const show = (line: string) => console.log(`${kernel.title}: ${line}`)
  await runToItsEnd(kernel.command({ ...program, initramfs, reports: reports.path, disk }), kernel.limitMs, show)
  if (!(await Bun.file(paths.verdict).exists())) return undefined
  const printed = Bun.file(paths.figures)
  const figures = (await printed.exists()) ? readFigures(await printed.text()) : []
  for (const line of figures) show(line)
  const found = job.runs.map((_, at) => readReport(paths.junit(at)))
  return { verdict: (await Bun.file(paths.verdict).json()) as Verdict, reports: await Promise.all(found), figures }
}

/** Runs a machine. Kills it at the time limit, or when this process ends. */
async function runToItsEnd(command: readonly string[], timeout: number, show: (line: string) => void): Promise<void> {
  // biome-ignore lint/correctness/useYield: `show` receives each line, and no line is yielded
  const toShow = function* (line: unknown) {
    show(String(line))
  }
  const { timedOut, durationMs, exitCode, signal } = await execa("setpriv", ["--pdeathsig", "KILL", ...command], {
    stdin: "ignore",
    stdout: toShow,
    stderr: toShow,
    reject: false,
    timeout,
    killSignal: "SIGKILL",
  })
  const how = timedOut ? "was killed at its time limit" : `ended with ${exitCode ?? signal}`
  show(`the machine ${how} after ${(durationMs / 1000).toFixed(1)} s`)
}

async function readReport(file: string): Promise<TestCase[] | undefined> {
  return (await Bun.file(file).exists()) ? parseTestCases(await Bun.file(file).text()) : undefined
}
