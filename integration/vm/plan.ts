import { join } from "node:path"
import { titlesWith } from "../left-out.ts"
import type { Job } from "./job.ts"
import type { Kernel } from "./kernel.ts"

/** The integration tests, by file name, with their sources. */
export type TestFiles = ReadonlyMap<string, string>

/** Reads all integration tests. */
export async function readTestFiles(directory: string): Promise<TestFiles> {
  const names = [...new Bun.Glob("*.test.ts").scanSync(directory)].sort()
  return new Map(
    await Promise.all(names.map(async (name) => [name, await Bun.file(join(directory, name)).text()] as const)),
  )
}

/** The files with tests that need a feature of the kernel. */
export function featureFiles(files: TestFiles): string[] {
  return [...files].filter(([, source]) => source.includes("testWith(")).map(([name]) => name)
}

/**
 * What runs on a kernel: its own files whole, and of all others the tests that need what it is there to show, or what
 * is missing on the machine outside.
 */
export function planJob(kernel: Pick<Kernel, "files" | "shows" | "patience">, all: TestFiles, missing: string[]): Job {
  const gone = kernel.files.filter((name) => !all.has(name))
  if (gone.length > 0) throw new Error(`Cannot find integration/${gone.join(", integration/")}`)
  const others = featureFiles(all).filter((name) => !kernel.files.includes(name))
  const path = (name: string) => `./integration/${name}`
  const features = [...new Set([...kernel.shows, ...missing])]
  const whole = { title: kernel.files.join(" "), files: kernel.files.map(path) }
  const title = `tests that need one of: ${features.join(", ")}`
  const selected = { title, files: others.map(path), pattern: titlesWith(features) }
  return { patience: kernel.patience, runs: [whole, selected].filter((run) => run.files.length > 0) }
}
