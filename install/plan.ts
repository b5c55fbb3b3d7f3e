import { findStat, isRegularFile, stat } from "../pkg/libc/mod.ts"
import type { Step } from "./change.ts"
import { contentOf } from "./content.ts"
import { type Layout, refusal } from "./layout.ts"
import type { Manifest } from "./manifest.ts"

export interface Outcome {
  readonly name: string
  /**
   * "adopted": another program's file was replaced and kept. "restored": a replaced file was restored. "left": another
   * program's file was created since the last change and stays.
   */
  readonly did: "created" | "replaced" | "adopted" | "unchanged" | "restored" | "removed" | "left"
}

/** The wanted content of a file, as in `contentOf`. Undefined for no file. */
export interface Wish {
  readonly name: string
  readonly content: string | undefined
}

export interface Plan {
  readonly steps: readonly Step[]
  readonly outcomes: readonly Outcome[]
}

/** How to distinguish this suite's files from those of other programs. */
interface Rules {
  /** The manifests that name this suite's files. */
  readonly manifests: readonly (Manifest | undefined)[]
  /**
   * The steps of a committed change that is not carried out yet. Only a dry run has some, because an installer first
   * carries them out.
   */
  readonly committed?: readonly Step[]
  /** The mode of new files, 0755 by default. */
  readonly mode?: number
  /** Whether files of other programs may be replaced. */
  readonly adopt: boolean
  /** Whether this change restores replaced files, and therefore keeps no files. */
  readonly isBack?: boolean
}

/** Compares the directory with the wanted files. Throws error code 5 for another program's file or a directory. */
export function plan(layout: Layout, wishes: readonly Wish[], rules: Rules): Plan {
  const planned = wishes.map((wish) => planOne(layout, wish, rules))
  for (const { step } of planned) if (step) requireReplaceable(layout, step)
  const foreign = planned.filter(({ outcome: { did } }) => did === "adopted").map(({ outcome }) => outcome.name)
  if (foreign.length > 0 && !rules.adopt) {
    const whose = foreign.length === 1 ? "was" : "were"
    throw refusal(
      layout.directory,
      `${foreign.map((name) => `"${name}"`).join(", ")} ${whose} placed by other programs`,
      "--adopt replaces such files, and keeps them for --rollback and --uninstall",
    )
  }
  return { steps: planned.flatMap(({ step }) => step ?? []), outcomes: planned.map(({ outcome }) => outcome) }
}

function planOne(layout: Layout, { name, content: next }: Wish, rules: Rules): { outcome: Outcome; step?: Step } {
  const { manifests, committed = [], mode = 0o755, isBack = false } = rules
  const file = layout.file(name)
  const now = contentOf(file)
  if (now === "other") throw refusal(layout.directory, `"${name}" in it is a directory or a device`)
  const say = (did: Outcome["did"], keep?: Step["keep"]) =>
    did === "unchanged" || did === "left"
      ? { outcome: { name, did } }
      : { outcome: { name, did }, step: { name, now, next, keep } }
  if (now === next && (now === undefined || isBack || isWhole(file, mode))) return say("unchanged")
  if (now === undefined) return say(isBack ? "restored" : "created")
  if (now === next) return say("replaced")
  const isCommitted = committed.some((step) => step.name === name && step.now === now)
  if (isCommitted || manifests.some((manifest) => manifest?.files[name]?.content === now)) {
    if (next === undefined) return say("removed")
    return isBack ? say("restored") : say("replaced", "before")
  }
  return next === undefined ? say("left") : say("adopted", "displaced")
}

/** Throws error code 5 if a file cannot be replaced or removed, because every committed change must be completable. */
function requireReplaceable(layout: Layout, { name }: Step): void {
  const file = layout.file(name)
  const found = findStat(file, true)
  if (found?.isMountPoint) {
    throw refusal(layout.directory, `"${name}" in it is a mount point`, `umount ${file}`)
  }
  if (found?.isFrozen) {
    throw refusal(layout.directory, `"${name}" in it is immutable or append-only`, `chattr -ia ${file}`)
  }
}

/**
 * Reports whether a regular file has all bits of `mode`, and no other name under which a program could change it. True
 * for other types.
 */
function isWhole(file: string, mode: number): boolean {
  const found = stat(file, true)
  return !isRegularFile(found) || ((found.mode & mode) === mode && found.links === 1)
}
