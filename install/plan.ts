import { findStat, isRegularFile, stat } from "../pkg/libc/mod.ts"
import type { Step } from "./change.ts"
import { contentOf } from "./content.ts"
import { type Layout, refusal } from "./layout.ts"
import type { Manifest } from "./manifest.ts"

/** The installer's action for one name. */
export interface Outcome {
  readonly name: string
  /**
   * "adopted": a foreign file is replaced and kept. "restored": a replaced file is restored. "left": another program
   * has placed a file of this name since, which is kept.
   */
  readonly did: "created" | "replaced" | "adopted" | "unchanged" | "restored" | "removed" | "left"
}

/** The wanted content of a name, see `contentOf`. Undefined for no file. */
export interface Wish {
  readonly name: string
  readonly content: string | undefined
}

/** The steps from the present to the wanted state. */
export interface Plan {
  readonly steps: readonly Step[]
  readonly outcomes: readonly Outcome[]
}

/** The rules that distinguish our files from foreign ones. */
interface Rules {
  /** The manifests that name our files. */
  readonly manifests: readonly (Manifest | undefined)[]
  /** The steps of a committed change, which the installer carries out first. A dry run leaves them undone. */
  readonly committed?: readonly Step[]
  /** The mode of new files, 0755 by default. */
  readonly mode?: number
  /** Whether foreign files may be replaced. */
  readonly adopt: boolean
  /** Whether this change restores replaced files, and so keeps none. */
  readonly isBack?: boolean
}

/**
 * Compares the directory with the wanted files. Throws code 5 when a file of another program, or a directory, has one
 * of the names.
 */
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

/**
 * Throws code 5 for a file that can be neither replaced nor removed, so that every committed change can be completed.
 */
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

/** Whether a file has a single name. Otherwise one writer could change all names of the inode at once. */
function isWhole(file: string, mode: number): boolean {
  const found = stat(file, true)
  return !isRegularFile(found) || ((found.mode & mode) === mode && found.links === 1)
}
