import { findStat } from "../pkg/libc/mod.ts"
import { CniError, Code } from "../pkg/types/mod.ts"
import { apply, findDecided, makeReady, type Step } from "./change.ts"
import { carryAttributes, contentOf, copyWhole } from "./content.ts"
import { asOnlyInstaller, Layout, orRefused, requireDirectory } from "./layout.ts"
import { type Manifest, type Placed, readManifest } from "./manifest.ts"
import { type Outcome, plan, type Wish } from "./plan.ts"
import { InstallerRun } from "./run.ts"
import { noteSeen } from "./seen.ts"

export interface Installation {
  readonly directory: string
  /** The names of the files to install. Other files stay unchanged. */
  readonly names: readonly string[]
  readonly source: (name: string) => string
  /** The source directory, which the manifest records. */
  readonly from: string
  /** The mode of the files, 0755 by default. */
  readonly mode?: number
  /** Throws for an unusable source file. Called before any file is written. */
  readonly inspect?: (source: string) => void
  /** Runs a new file before it is installed, and returns the version that it prints. Throws for an unusable file. */
  readonly introduce?: (file: string) => string | undefined
  /** Whether to replace files of other programs, and keep them. */
  readonly adopt?: boolean
  /** Whether to report the outcome without any change. */
  readonly dryRun?: boolean
  /** The run of the installer, if it installs into several directories. */
  readonly run?: InstallerRun
}

/**
 * Copies a file for each name into a directory. Each name changes atomically, so that a runtime finds either the old or
 * the new plugin. Running plugins continue. All checks precede the first change. Throws error code 5, and code 11 if
 * another installer is running; docs/install.md.
 */
export function install(installation: Installation): readonly Outcome[] {
  const { directory, names, source, inspect, dryRun } = installation
  const layout = new Layout(directory)
  return orRefused(layout, () => {
    requireDirectory(directory)
    const wishes = names.map((name): Wish => {
      inspect?.(source(name))
      return { name, content: contentOf(source(name)) }
    })
    if (dryRun) return planned(layout, installation, wishes).outcomes
    return asOnlyInstaller(layout, () => {
      makeReady(layout)
      return carryIn(layout, installation, wishes)
    })
  })
}

function planned(layout: Layout, { adopt = false, mode = 0o755 }: Installation, wishes: readonly Wish[]) {
  const change = findDecided(layout)
  const manifests = [readManifest(layout.manifest), change?.manifest()]
  return plan(layout, wishes, { manifests, committed: change?.steps ?? [], mode, adopt })
}

function carryIn(layout: Layout, installation: Installation, wishes: readonly Wish[]): readonly Outcome[] {
  const { directory, source, from, mode = 0o755, introduce } = installation
  const earlier = readManifest(layout.manifest)
  const { outcomes, steps } = planned(layout, installation, wishes)
  const isNoted = wishes.every(({ name, content }) => earlier?.files[name]?.content === content)
  const { run = new InstallerRun([directory]) } = installation
  if (steps.length === 0 && isNoted && !run.isToNote(earlier)) return outcomes

  const versions: Record<string, string | undefined> = {}
  const stage = ({ name, now, next }: Step, path: string) => {
    const [origin, file] = [source(name), layout.file(name)]
    const isOurs = now !== undefined && earlier?.files[name]?.content === now
    const label = findStat(file, true) && file
    const capabilities = isOurs ? [origin, file] : [origin]
    copyWhole(origin, path, mode, (fd) => carryAttributes(path, fd, { label, capabilities }))
    if (contentOf(path) !== next)
      throw new CniError(Code.TryAgainLater, `Cannot install "${origin}": it was changed during the call`)
    versions[name] = introduce?.(path)
  }
  const manifest = (): Manifest => {
    const place = ({ name, content }: Wish): [string, Placed][] => {
      if (content === undefined) return []
      const step = steps.find((one) => one.name === name)
      const known = earlier?.files[name]
      const displaced = step?.keep === "displaced" ? step.now : known?.displaced
      const version = step ? versions[name] : (known?.version ?? introduce?.(layout.file(name)))
      return [[name, { content, ...(version && { version }), ...(displaced && { displaced }) }]]
    }
    const files = { ...earlier?.files, ...Object.fromEntries(wishes.flatMap(place)) }
    const were = Object.entries(files).flatMap(([name, file]): [string, Placed][] => {
      const change = steps.find((step) => step.name === name && step.now !== step.next)
      if (change === undefined) return [[name, file]]
      const old = earlier?.files[name]
      return old && change.keep === "before" ? [[name, old]] : [] // the record lists only installed files
    })
    const { installed: at = "", from: origin = "" } = earlier ?? {}
    const before = { installed: at, from: origin, files: Object.fromEntries(were) }
    const generation = (earlier?.generation ?? 0) + 1
    return { generation, installed: run.begin(), directories: run.directories, from, files, before }
  }
  apply(layout, { kind: "install", steps, manifest }, stage)
  noteSeen(layout)
  return outcomes
}
