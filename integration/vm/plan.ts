import { join } from "node:path"
import { featureTitle } from "../left-out.ts"
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

/** What runs on a kernel: its own files whole, and of all others the tests that need a feature. */
export function planJob({ files, patience }: Pick<Kernel, "files" | "patience">, all: TestFiles): Job {
  const gone = files.filter((name) => !all.has(name))
  if (gone.length > 0) throw new Error(`Cannot find integration/${gone.join(", integration/")}`)
  const others = featureFiles(all).filter((name) => !files.includes(name))
  const path = (name: string) => `./integration/${name}`
  const whole = { title: files.join(" "), files: files.map(path) }
  const marked = { title: "tests that need a feature of the kernel", files: others.map(path), pattern: featureTitle }
  return { patience, runs: [whole, marked].filter((run) => run.files.length > 0) }
}
