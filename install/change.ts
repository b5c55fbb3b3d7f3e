import {
  findStat,
  makeDirectories,
  readDirectory,
  removeDirectory,
  rename,
  syncPath,
  tryUnlink,
  unlessErrno,
} from "../pkg/libc/mod.ts"
import { CniError, Code, isJsonObject } from "../pkg/types/mod.ts"
import { contentOf, keep, removeTree } from "./content.ts"
import { type Layout, requireOwnHome } from "./layout.ts"
import { brokenDocument, isFileName, type Manifest, readDocument, readManifest, writeDocument } from "./manifest.ts"

export type Kind = "install" | "rollback" | "uninstall"

/** What becomes of one name. */
export interface Step {
  readonly name: string
  /** What it has now, see `contentOf`; undefined for nothing. */
  readonly now: string | undefined
  /** What it gets; undefined when it is removed. */
  readonly next: string | undefined
  /** Where what it has now is kept. */
  readonly keep?: "before" | "displaced" | undefined
}

/** A change of a directory, and the manifest that it leads to; undefined when the installer leaves. */
export interface Change {
  readonly kind: Kind
  readonly steps: readonly Step[]
  /** Is called when all new files are staged. */
  readonly manifest: () => Manifest | undefined
}

const KEPT = ["before", "displaced"] as const

/**
 * Prepares a change whole, decides it by one rename, and carries it out. `stage` makes the new file of a step. When this throws
 * before the decision nothing is changed; docs/install.md has the order and what a kill leaves.
 */
export function apply(layout: Layout, change: Change, stage: (step: Step, path: string) => void): void {
  try {
    prepare(layout, change, stage)
    rename(layout.staging, layout.ready)
  } catch (cause) {
    removeTree(layout.staging)
    unlessErrno(() => removeDirectory(layout.home), "ENOTEMPTY", "ENOENT", "EEXIST")
    throw cause
  }
  syncPath(layout.home)
  carryOut(layout, change, false)
}

function prepare(layout: Layout, { kind, steps, manifest }: Change, stage: (step: Step, path: string) => void): void {
  const { staging } = layout
  removeTree(staging)
  for (const part of ["files", ...KEPT]) makeDirectories(`${staging}/${part}`)
  for (const step of steps) {
    const { name, now, next, keep: where } = step
    if (next !== undefined) stage(step, `${staging}/files/${name}`)
    if (where === undefined) continue
    const kept = `${staging}/${where}/${name}`
    keep(layout.file(name), kept)
    if (contentOf(kept) !== now)
      throw new CniError(Code.TryAgainLater, `Cannot replace "${layout.file(name)}": it was changed during the call`)
  }
  const following = manifest()
  if (following) writeDocument(`${staging}/manifest.json`, following)
  writeDocument(`${staging}/steps.json`, { kind, steps })
  for (const part of ["/files", "/before", "/displaced", ""]) syncPath(`${staging}${part}`)
  for (const directory of [layout.home, layout.directory]) syncPath(directory)
}

/** Carries out what an earlier installer decided, and removes what one prepared. Returns the kind of what was carried out. */
export function makeReady(layout: Layout): Kind | undefined {
  requireOwnHome(layout)
  readManifest(layout.manifest) // nothing is touched of a manifest that is of a newer version
  const finished = finish(layout)
  removeTree(layout.staging)
  unlessErrno(() => removeDirectory(layout.wake), "ENOENT", "ENOTDIR", "ENOTEMPTY")
  return finished
}

/** Finishes a change that an interrupted installer had decided. Returns its kind; `undefined` without such a change. */
function finish(layout: Layout): Kind | undefined {
  const change = findDecided(layout)
  if (change) carryOut(layout, change, true)
  else removeTree(layout.ready) // a change that was carried out, and not cleared away
  return change?.kind
}

/** The change that is decided and not carried out. */
export function findDecided({ ready }: Layout): Change | undefined {
  const path = `${ready}/steps.json`
  const root = readDocument(path, "list of steps")
  if (root === undefined) return undefined
  const { kind, steps } = root
  const isKind = kind === "install" || kind === "rollback" || kind === "uninstall"
  if (!isKind || !Array.isArray(steps)) throw brokenDocument(path, "list of steps", "expected a kind and steps")
  const parsed = steps.map((step): Step => {
    const { name, now, next } = isJsonObject(step) ? step : {}
    if (typeof name !== "string" || !isFileName(name)) throw brokenDocument(path, "list of steps", "expected a name")
    return { name, now: typeof now === "string" ? now : undefined, next: typeof next === "string" ? next : undefined }
  })
  return { kind, steps: parsed, manifest: () => readManifest(`${ready}/manifest.json`) }
}

/** Each step may have been done already. `isLater`: others may have changed files since the decision, and theirs are left. */
function carryOut(layout: Layout, { kind, steps }: Change, isLater: boolean): void {
  const { ready, directory, home } = layout
  const manifest = readManifest(`${ready}/manifest.json`)
  for (const { name, now, next } of steps) {
    const [file, staged] = [layout.file(name), `${ready}/files/${name}`]
    const isDone = next !== undefined && findStat(staged, true) === undefined
    if (isDone || (isLater && contentOf(file) !== now)) continue
    if (next === undefined) tryUnlink(file)
    else rename(staged, file)
  }
  syncPath(directory)
  if (kind === "uninstall") {
    clear(layout)
    return
  }
  if (manifest) {
    if (findStat(`${ready}/before`)) rename(`${ready}/before`, layout.before(manifest.generation))
    moveAll(`${ready}/displaced`, layout.displaced)
    syncPath(home)
    rename(`${ready}/manifest.json`, layout.manifest)
    syncPath(home)
  }
  tryUnlink(`${ready}/steps.json`)
  removeTree(ready)
  const current = manifest ?? readManifest(layout.manifest)
  if (current) tidy(layout, current)
}

function moveAll(from: string, to: string): void {
  const names = unlessErrno(() => readDirectory(from), "ENOENT") ?? []
  if (names.length === 0) return
  makeDirectories(to)
  for (const name of names) rename(`${from}/${name}`, `${to}/${name}`)
  syncPath(to)
}

/** Removes what is kept and no manifest names. */
function tidy(layout: Layout, { generation, files }: Manifest): void {
  const current = layout.before(generation)
  for (const name of readDirectory(layout.home)) {
    const path = `${layout.home}/${name}`
    if (name.startsWith("before-") && path !== current) removeTree(path)
  }
  const displaced = unlessErrno(() => readDirectory(layout.displaced), "ENOENT") ?? []
  for (const name of displaced) if (files[name]?.displaced === undefined) tryUnlink(`${layout.displaced}/${name}`)
}

/** Removes all that the installer keeps, the list of steps last. */
function clear(layout: Layout): void {
  for (const name of readDirectory(layout.home)) if (name !== "ready") removeTree(`${layout.home}/${name}`)
  tryUnlink(`${layout.ready}/steps.json`)
  removeTree(layout.home)
}
