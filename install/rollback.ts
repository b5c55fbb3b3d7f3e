import { findStat } from "../pkg/libc/mod.ts"
import { CniError, Code } from "../pkg/types/mod.ts"
import { apply, makeReady, type Step } from "./change.ts"
import { contentOf, keep } from "./content.ts"
import { asOnlyInstaller, Layout, orRefused, requireDirectory } from "./layout.ts"
import { type Manifest, type Placed, readManifest } from "./manifest.ts"
import { type Outcome, type Plan, plan, type Wish } from "./plan.ts"
import { findLast, knownOf, requireManifest } from "./run.ts"
import { noteSeen } from "./seen.ts"

export interface Manner {
  /** Whether to replace newer files of other programs, and keep them. */
  readonly adopt?: boolean
  /** Whether to report the outcome without any change. */
  readonly dryRun?: boolean
}

/** A directory with the outcome for each of its files. */
export interface Returned {
  readonly directory: string
  readonly outcomes: readonly Outcome[]
}

/**
 * Undoes the last installation that `directories` record, in all directories that the installation changed, even
 * unnamed ones. Restores the former files and the replaced files of other programs, and removes new files. First
 * completes an interrupted installation, which is then the last one. Also completes an interrupted rollback, after
 * which a second rollback changes nothing. Throws error code 5.
 */
export function rollback(directories: readonly string[], manner: Manner = {}): readonly Returned[] {
  const named = knownOf(directories)
  const last = findLast(named)?.manifest ?? requireManifest(new Layout(directories[0] ?? "/"))
  const others = knownOf(last.directories.filter((directory) => !directories.includes(directory)))
  const isOfIt = ({ manifest }: { manifest: Manifest }) => manifest.installed === last.installed
  const its = [...named, ...others].filter(isOfIt)
  const isBack = its.some(({ manifest }) => manifest.before === undefined)
  // Other directories first forget older installations, so that a second rollback does not undo those.
  const inOrder = [...named.filter((one) => !isOfIt(one)), ...its.reverse()]
  const take = (manner: Manner) =>
    inOrder.map(({ layout }) => ({
      directory: layout.directory,
      outcomes: orRefused(layout, () => rollbackOne(layout, isBack ? undefined : last.installed, manner)),
    }))
  const planned = take({ ...manner, dryRun: true }) // reports errors of all directories before changing one
  return manner.dryRun ? planned : take(manner)
}

/** Undoes an installation in one directory. If `installed` is undefined, does nothing. */
function rollbackOne(layout: Layout, installed: string | undefined, manner: Manner): readonly Outcome[] {
  requireDirectory(layout.directory)
  if (manner.dryRun) return planBack(layout, requireManifest(layout), installed, manner).outcomes
  return asOnlyInstaller(layout, () => {
    makeReady(layout)
    return goBack(layout, installed, manner)
  })
}

function goBack(layout: Layout, installed: string | undefined, manner: Manner): readonly Outcome[] {
  const manifest = requireManifest(layout)
  const { outcomes, steps } = planBack(layout, manifest, installed, manner)
  const { before, ...now } = manifest
  if (!before || installed === undefined || manifest.installed > installed) return outcomes
  const next = manifest.installed === installed ? { ...now, ...before, directories: [] } : now
  const displacedNow = (name: string) => steps.find((step) => step.name === name && step.keep === "displaced")?.now
  const placed = Object.entries(next.files).map(([name, file]): [string, Placed] => {
    const displaced = displacedNow(name) ?? file.displaced
    return [name, { ...file, ...(displaced && { displaced }) }]
  })
  const following = { ...next, generation: manifest.generation + 1, files: Object.fromEntries(placed) }
  apply(layout, { kind: "rollback", steps, manifest: () => following }, (step, path) =>
    bringBack(layout, manifest, step, path),
  )
  noteSeen(layout)
  return outcomes
}

function planBack(layout: Layout, manifest: Manifest, installed: string | undefined, { adopt = false }: Manner): Plan {
  const { files, before } = manifest
  if (!before || manifest.installed !== installed)
    return { steps: [], outcomes: Object.keys(files).map((name) => ({ name, did: "unchanged" })) }
  const names = [...new Set([...Object.keys(files), ...Object.keys(before.files)])]
  const wishes = names.map((name): Wish => {
    return { name, content: before.files[name]?.content ?? files[name]?.displaced }
  })
  return plan(layout, wishes, { manifests: [manifest, readManifest(layout.manifest)], adopt, isBack: true })
}

/** Moves the kept file of a step to `path`. Throws error code 5 if its content differs from the recorded content. */
export function bringBack(layout: Layout, manifest: Manifest, { name, next }: Step, path: string): void {
  const places = [layout.before(manifest.generation), layout.displaced].map((place) => `${place}/${name}`)
  const kept = places.find((file) => findStat(file, true) !== undefined && contentOf(file) === next)
  if (kept === undefined)
    throw new CniError(Code.Io, `Cannot restore "${layout.file(name)}": its backup is missing or damaged`)
  keep(kept, path)
}
