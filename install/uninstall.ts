import { findStat, tryRemoveDirectory } from "../pkg/libc/mod.ts"
import { apply, findDecided, makeReady } from "./change.ts"
import { asOnlyInstaller, Layout, orRefused, requireDirectory } from "./layout.ts"
import type { Manifest } from "./manifest.ts"
import { type Outcome, type Plan, plan } from "./plan.ts"
import { bringBack } from "./rollback.ts"
import { requireManifest } from "./run.ts"

/** A directory with an installation to remove. */
export interface Place {
  readonly directory: string
  /** Whether to report the outcome without any change. */
  readonly dryRun?: boolean
}

/**
 * Removes the installed files and the installer's own files from a directory, and restores the replaced files of other
 * programs. Keeps files that another program has installed since. The caller must check that no container needs the
 * plugins. Throws error code 5.
 */
export function uninstall(place: Place): readonly Outcome[] {
  const layout = new Layout(place.directory)
  return orRefused(layout, () => {
    requireDirectory(place.directory)
    if (place.dryRun) return planAway(layout, requireManifest(layout)).outcomes
    return asOnlyInstaller(layout, () => {
      const steps = findDecided(layout)?.steps ?? []
      if (makeReady(layout) === "uninstall") return steps.map(({ name }) => ({ name, did: "removed" }))
      const isEmpty = findStat(layout.home) !== undefined && tryRemoveDirectory(layout.home)
      if (isEmpty) return [] // an earlier uninstallation was killed at its last step
      const manifest = requireManifest(layout)
      const { outcomes, steps: all } = planAway(layout, manifest)
      const change = { kind: "uninstall", steps: all, manifest: () => undefined } as const
      apply(layout, change, (step, path) => bringBack(layout, manifest, step, path))
      return outcomes
    })
  })
}

function planAway(layout: Layout, manifest: Manifest): Plan {
  const wishes = Object.entries(manifest.files).map(([name, { displaced }]) => ({ name, content: displaced }))
  const rules = { manifests: [manifest], adopt: true, isBack: true }
  const { steps, outcomes } = plan(layout, wishes, rules)
  // A file of another program stays, even if an older file of that program is kept.
  const isTheirs = (name: string) => outcomes.some((outcome) => outcome.name === name && outcome.did === "adopted")
  return {
    steps: steps.filter(({ name }) => !isTheirs(name)),
    outcomes: outcomes.map(({ name, did }) => ({ name, did: isTheirs(name) ? "left" : did })),
  }
}
