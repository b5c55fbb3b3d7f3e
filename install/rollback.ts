import { findStat } from "../pkg/libc/mod.ts"
import { CniError, Code } from "../pkg/types/mod.ts"
import { apply, type Step } from "./change.ts"
import { contentOf, keep } from "./content.ts"
import { makeReady, orRefused, requireDirectory } from "./install.ts"
import { asOnlyInstaller, Layout } from "./layout.ts"
import { type Manifest, type Placed, readManifest } from "./manifest.ts"
import { type Outcome, type Plan, plan, type Wish } from "./plan.ts"
import { noteSeen } from "./seen.ts"

/** A directory in which something was installed. */
export interface Place {
  readonly directory: string
  /** Also replace files that others have placed since, and keep them. */
  readonly adopt?: boolean
  /** The mode of the files, 0755 by default. */
  readonly mode?: number
  /** Only find out what would be done. */
  readonly dryRun?: boolean
}

/**
 * Puts back what was there before the last installation: its files, those of others that it displaced, and no file where there was
 * none. An installation that was interrupted is carried out first, so that this is the state before it; a rollback that was
 * interrupted is carried out, and a second one changes nothing. Throws code 5.
 */
export function rollback(place: Place): readonly Outcome[] {
  const layout = new Layout(place.directory)
  return orRefused(layout, () => {
    requireDirectory(place.directory)
    if (place.dryRun) return planBack(layout, requireManifest(layout), place).outcomes
    return asOnlyInstaller(layout, () => {
      makeReady(layout)
      return goBack(layout, place)
    })
  })
}

function goBack(layout: Layout, place: Place): readonly Outcome[] {
  const manifest = requireManifest(layout)
  const { outcomes, steps } = planBack(layout, manifest, place)
  if (!manifest.before) return outcomes
  const { installed, from, files } = manifest.before
  const displacedNow = (name: string) => steps.find((step) => step.name === name && step.keep === "displaced")?.now
  const placed = Object.entries(files).map(([name, file]): [string, Placed] => {
    const displaced = displacedNow(name) ?? file.displaced
    return [name, { ...file, ...(displaced && { displaced }) }]
  })
  const generation = manifest.generation + 1
  const next: Manifest = { generation, installed, from, files: Object.fromEntries(placed) }
  apply(layout, { kind: "rollback", steps, manifest: () => next }, (step, path) =>
    bringBack(layout, manifest, step, path),
  )
  noteSeen(layout)
  return outcomes
}

export function requireManifest(layout: Layout): Manifest {
  const manifest = readManifest(layout.manifest)
  if (manifest) return manifest
  throw new CniError(Code.Io, `Cannot find what was installed into "${layout.directory}": it has no manifest`, {
    details: `cni install writes ${layout.manifest}; files that were copied there by others have none`,
  })
}

function planBack(layout: Layout, manifest: Manifest, { adopt = false, mode = 0o755 }: Place): Plan {
  const { files, before } = manifest
  if (!before) return { steps: [], outcomes: Object.keys(files).map((name) => ({ name, did: "unchanged" })) }
  const names = [...new Set([...Object.keys(files), ...Object.keys(before.files)])]
  const wishes = names.map((name): Wish => {
    return { name, content: before.files[name]?.content ?? files[name]?.displaced }
  })
  return plan(layout, wishes, { manifests: [manifest], mode, adopt, isBack: true })
}

/** Gives the file that is kept of a name its place in a change. Throws code 5 when it is not what was kept. */
export function bringBack(layout: Layout, manifest: Manifest, { name, next }: Step, path: string): void {
  const places = [layout.before(manifest.generation), layout.displaced].map((place) => `${place}/${name}`)
  const kept = places.find((file) => findStat(file, true) !== undefined && contentOf(file) === next)
  if (kept === undefined)
    throw new CniError(
      Code.Io,
      `Cannot put back "${layout.file(name)}": the file that was kept of it is missing or damaged`,
    )
  keep(kept, path)
}
