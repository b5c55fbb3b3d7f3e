import { join } from "node:path"
import { type Feature, titlesWith } from "../lab/mod.ts"
import type { Job } from "./job.ts"
import type { Kernel } from "./kernel.ts"

/** The integration tests, by path in `integration/`, with their sources. */
export type TestFiles = ReadonlyMap<string, string>

/** Reads all integration tests. */
export async function readTestFiles(directory: string): Promise<TestFiles> {
  const names = [...new Bun.Glob("**/*.test.ts").scanSync(directory)].sort()
  return new Map(
    await Promise.all(names.map(async (name) => [name, await Bun.file(join(directory, name)).text()] as const)),
  )
}

/** The files with tests that need a feature of the kernel. */
export function featureFiles(files: TestFiles): string[] {
  return [...files].filter(([, source]) => source.includes("testWith(")).map(([name]) => name)
}

/** What of a kernel a plan depends on. */
type Plannable = Pick<Kernel, "files" | "shows" | "lacks" | "patience">

/** A kernel and what runs on it. */
export interface Plan<K> {
  readonly kernel: K
  readonly job: Job
}

/**
 * What runs on each of some kernels: its own files whole, and of all others the tests that need what it shows.
 * A feature that is missing on the machine outside, and that none of them shows, is shown by the first that has it.
 */
export function planJobs<K extends Plannable>(
  kernels: readonly K[],
  all: TestFiles,
  missing: readonly Feature[],
): Plan<K>[] {
  const shown = kernels.flatMap((kernel) => kernel.shows)
  const orphans = missing.filter((feature) => !shown.includes(feature))
  return kernels.map((kernel) => {
    const adopted = orphans.filter((feature) => kernels.find(({ lacks }) => !lacks.includes(feature)) === kernel)
    return { kernel, job: planJob(kernel, all, [...kernel.shows, ...adopted]) }
  })
}

function planJob({ files, patience }: Plannable, all: TestFiles, features: readonly Feature[]): Job {
  const gone = files.filter((name) => !all.has(name))
  if (gone.length > 0) throw new Error(`Cannot find integration/${gone.join(", integration/")}`)
  const others = featureFiles(all).filter((name) => !files.includes(name))
  const path = (name: string) => `./integration/${name}`
  const whole = { title: files.join(" "), files: files.map(path) }
  const title = `tests that need one of: ${features.join(", ")}`
  const selected = { title, files: others.map(path), pattern: titlesWith(features) }
  return { patience, runs: [whole, selected].filter((run) => run.files.length > 0) }
}
