import { FileDescriptor, findStat, lockWithin, Open, stat, tryLockShared } from "../pkg/libc/mod.ts"
import { findDecided, type Kind } from "./change.ts"
import { contentOf } from "./content.ts"
import { busy, Layout } from "./layout.ts"
import { type Manifest, readManifest } from "./manifest.ts"
import { readSeen } from "./seen.ts"

export interface Difference {
  readonly name: string
  readonly is: "replaced" | "missing" | "not executable" | "shared"
  /** The content of a replaced file, as in `contentOf`. */
  readonly content?: string
}

export interface Verified {
  readonly manifest: Manifest
  readonly differences: readonly Difference[]
  /** The kind of the change that was committed but not carried out. */
  readonly interrupted?: Kind | undefined
}

/**
 * Compares the files in a directory with its manifest. Returns `undefined` if it has no manifest. If `isQuick`, skips
 * files whose inode and times are unchanged. Waits for a running installer. Throws error code 5, code 11 if the wait
 * takes too long, and `SyscallError`.
 */
export function verify(directory: string, { isQuick = false, mode = 0o755 } = {}): Verified | undefined {
  const layout = new Layout(directory)
  if (!findStat(layout.home)) return undefined
  using place = FileDescriptor.open(directory, Open.ReadOnly)
  if (!lockWithin(isQuick ? 1000 : 60_000, () => tryLockShared(place.fd))) throw busy(directory)
  const decided = findDecided(layout)
  const noted = readManifest(layout.manifest)
  const manifest = decided?.manifest() ?? noted
  if (!manifest) return undefined
  const isSeen = isQuick ? readSeen(layout) : () => false
  const differences = Object.entries(manifest.files).flatMap(([name, { content }]): Difference[] => {
    const file = layout.file(name)
    const found = isSeen(name) ? content : contentOf(file)
    if (found === undefined) return [{ name, is: "missing" }]
    if (decided && found === noted?.files[name]?.content) return []
    if (found !== content) return [{ name, is: "replaced", content: found }]
    const { mode: has, links, inode } = stat(file)
    if ((has & mode) !== mode) return [{ name, is: "not executable" }]
    const kept = layout.kept(name).filter((path) => findStat(path, true)?.inode === inode) // a killed installer left them
    return links === 1 + kept.length ? [] : [{ name, is: "shared" }]
  })
  return { manifest, differences, interrupted: decided?.kind }
}
