import { join } from "node:path"
import { type Feature, neededByPlugins, titlesWith, titlesWithAll } from "../lab/mod.ts"
import type { Job } from "./job.ts"
import type { Kernel } from "./kernel.ts"

/** The integration tests: the path in `integration/` and the source of each. */
export type TestFiles = ReadonlyMap<string, string>

/** Matches tests that do not concern plugins, and tests that need more than a kernel. */
const notInMachines = /^(lab|vm|interop|sanitized|arm64)\//

export async function readTestFiles(directory: string): Promise<TestFiles> {
  const all = [...new Bun.Glob("**/*.test.ts").scanSync(directory)]
  const names = all.filter((name) => !notInMachines.test(name)).sort()
  return new Map(
    await Promise.all(names.map(async (name) => [name, await Bun.file(join(directory, name)).text()] as const)),
  )
}

/** Returns the test files that may need one of `features`, directly or through a plugin. */
export function featureFiles(
  files: TestFiles,
  features: readonly Feature[],
  ofPlugins: readonly Feature[] = neededByPlugins(),
): string[] {
  const isOfPlugins = features.some((feature) => ofPlugins.includes(feature))
  const isAny = (source: string) => isOfPlugins && /\btest(With|WhereItRuns|Plugins?|Breakages)\(/.test(source)
  const says = (source: string) => /\btestWith\(/.test(source) && features.some((name) => source.includes(`"${name}"`))
  return [...files].filter(([, source]) => isAny(source) || says(source)).map(([name]) => name)
}

/** The properties of a kernel that affect its job. */
type Plannable = Pick<Kernel, "files" | "only" | "rebooted" | "shows" | "lacks" | "patience">

export interface Plan<K> {
  readonly kernel: K
  readonly job: Job
}

/**
 * Returns a job for each kernel: all its own files, and from other files the tests that need a feature which the kernel
 * `shows`. If the outer machine lacks a feature that no kernel shows, the tests of that feature run on the first kernel
 * that has it. If a test needs one feature that a kernel shows and one that this kernel lacks, it runs on the first
 * kernel that has both.
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
    return { kernel, job: planJob(kernel, all, [...kernel.shows, ...adopted], pairsFor(kernel, kernels)) }
  })
}

/** A feature that a kernel shows and one that it lacks. Tests that need both run on the first kernel that has both. */
type Pair = readonly [shown: Feature, lacked: Feature]

function pairsFor<K extends Plannable>(kernel: K, kernels: readonly K[]): Pair[] {
  const pairs = kernels.flatMap(({ shows, lacks }) =>
    shows.flatMap((shown) => lacks.map((lacked): Pair => [shown, lacked])),
  )
  const isFor = (pair: Pair) => kernels.find(({ lacks }) => !pair.some((feature) => lacks.includes(feature))) === kernel
  return pairs.filter((pair) => isFor(pair) && !pair.some((feature) => kernel.shows.includes(feature)))
}

function planJob(
  { files, only, rebooted = [], patience }: Plannable,
  all: TestFiles,
  features: readonly Feature[],
  pairs: readonly Pair[],
): Job {
  const gone = files.filter((name) => !all.has(name))
  if (gone.length > 0) throw new Error(`Cannot find integration/${gone.join(", integration/")}`)
  const shown = [...features, ...pairs.map(([feature]) => feature)]
  const others = featureFiles(all, shown).filter((name) => !files.includes(name))
  const path = (name: string) => `./integration/${name}`
  const whole = { title: files.join(" "), files: files.map(path) }
  const title = `tests that need one of: ${features.join(", ")}`
  const ofPlugins = only ? `^(${only.join("|")}): .*` : ""
  const pattern = [titlesWith(features), ...pairs.map(titlesWithAll)].map((titles) => ofPlugins + titles).join("|")
  const selected = { title, files: others.map(path), pattern }
  const again = rebooted.filter((name) => all.has(name))
  const afterReboot = { title: `${again.join(" ")}, after a reboot`, files: again.map(path), isAfterReboot: true }
  return { patience, runs: [whole, selected, afterReboot].filter((run) => run.files.length > 0) }
}
