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

export interface Step {
  readonly name: string
  /** The file's content before the change, as in `contentOf`. Undefined if the file does not exist. */
  readonly now: string | undefined
  /** The file's content after the change. Undefined for a removal. */
  readonly next: string | undefined
  /** The directory that keeps the file's content before the change. */
  readonly keep?: "before" | "displaced" | undefined
}

/** A change of a directory, and the manifest after it. */
export interface Change {
  readonly kind: Kind
  readonly steps: readonly Step[]
  /**
   * Returns the manifest after the change, or undefined for an uninstallation. Called after all new files are staged.
   */
  readonly manifest: () => Manifest | undefined
}

const KEPT = ["before", "displaced"] as const

/**
 * Prepares a change, commits it by renaming one directory, and carries it out. `stage` creates the new file of a step.
 * If an error occurs before the commit, nothing changes. docs/install.md describes the order, and the state after a
 * kill.
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

/**
 * Completes the change that an interrupted installer committed, and removes one that was only prepared. Returns the
 * kind of the completed change.
 */
export function makeReady(layout: Layout): Kind | undefined {
  requireOwnHome(layout)
  readManifest(layout.manifest) // throws for a manifest of a newer version
  const finished = finish(layout)
  removeTree(layout.staging)
  unlessErrno(() => removeDirectory(layout.wake), "ENOENT", "ENOTDIR", "ENOTEMPTY")
  return finished
}

/** Completes a change that an interrupted installer had committed. Returns its kind, or `undefined` for none. */
function finish(layout: Layout): Kind | undefined {
  const change = findDecided(layout)
  if (change) carryOut(layout, change, true)
  else removeTree(layout.ready) // the change was carried out but not cleaned up
  return change?.kind
}

/** Returns the change that was committed but not carried out. */
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

/**
 * Carries out a change, or its remaining steps. If `isLater`, skips files that other programs changed after the commit.
 */
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

/** Removes kept files that the manifest does not name. */
function tidy(layout: Layout, { generation, files }: Manifest): void {
  const current = layout.before(generation)
  for (const name of readDirectory(layout.home)) {
    const path = `${layout.home}/${name}`
    if (name.startsWith("before-") && path !== current) removeTree(path)
  }
  const displaced = unlessErrno(() => readDirectory(layout.displaced), "ENOENT") ?? []
  for (const name of displaced) if (files[name]?.displaced === undefined) tryUnlink(`${layout.displaced}/${name}`)
}

/**
 * Removes all of the installer's own files, the list of steps last, so that an interrupted removal is completed later.
 */
function clear(layout: Layout): void {
  for (const name of readDirectory(layout.home)) if (name !== "ready") removeTree(`${layout.home}/${name}`)
  tryUnlink(`${layout.ready}/steps.json`)
  removeTree(layout.home)
}
