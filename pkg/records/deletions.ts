import {
  FileDescriptor,
  findStat,
  lockWithin,
  makeDirectories,
  Open,
  readDirectory,
  tryLock,
  tryLockShared,
  tryUnlink,
  unlessErrno,
} from "../libc/mod.ts"
import type { Owner } from "../types/mod.ts"
import { recordName } from "./records.ts"

/** The directory of marks: an empty file for each attachment whose DEL has begun. */
export const DELETIONS = "/run/cni/deletions"
/** The timeouts of a DEL that waits for `cni reconcile`, and of a `cni reconcile` that waits for another one. */
const [DEL_PATIENCE_MS, RUN_PATIENCE_MS] = [10_000, 60_000]
/** The age after which a mark without a record is removed. A younger mark may be of an attachment in another cache. */
const KEPT_MS = 3_600_000

/**
 * Marks an attachment before the first change of its DEL. Waits while `cni reconcile` restores objects. A DEL that
 * begins later sees the restored objects; an attachment whose DEL has begun is not restored. Never throws, because GC
 * removes what an unmarked DEL may leave.
 */
export function beginDeletion(owner: Owner): void {
  try {
    using directory = openDirectory()
    lockWithin(DEL_PATIENCE_MS, () => tryLockShared(directory.fd))
    const flags = Open.WriteOnly | Open.Create | Open.Truncate // sets the modification time
    FileDescriptor.open(pathOf(owner), flags, 0o600)[Symbol.dispose]()
  } catch {}
}

/** Removes an attachment's mark. From now on, its missing interface shows that DEL has begun. Never throws. */
export function endDeletion(owner: Owner): void {
  try {
    tryUnlink(pathOf(owner))
  } catch {}
}

/** Prevents DELs from beginning until disposal. Throws if another run does so for a minute, and `SyscallError`. */
export function holdDeletions(): Disposable {
  const directory = openDirectory()
  if (lockWithin(RUN_PATIENCE_MS, () => tryLock(directory.fd))) return directory
  directory[Symbol.dispose]()
  throw new Error(`Cannot lock "${DELETIONS}": another cni reconcile holds it`)
}

/** Returns a function that reports whether a DEL began after a record was written. Newer records are of a new ADD. */
export function readDeletions(): (owner: Owner, written: bigint) => boolean {
  const names = new Set(unlessErrno(() => readDirectory(DELETIONS), "ENOENT") ?? [])
  return (owner, written) => {
    const begun = names.size > 0 && names.has(recordName(owner)) ? findStat(pathOf(owner))?.modified : undefined
    return begun !== undefined && begun >= written
  }
}

/** Removes old marks of attachments without a record. A DEL that never ended left them. Throws `SyscallError`. */
export function sweepDeletions(recorded: readonly Owner[]): void {
  const kept = new Set(recorded.map(recordName))
  for (const name of readDirectory(DELETIONS)) {
    const path = `${DELETIONS}/${name}`
    const { modified = 0n } = findStat(path) ?? {}
    if (!kept.has(name) && Number(modified / 1_000_000n) < Date.now() - KEPT_MS) tryUnlink(path)
  }
}

function pathOf(owner: Owner): string {
  return `${DELETIONS}/${recordName(owner)}`
}

function openDirectory(): FileDescriptor {
  const found = FileDescriptor.find(DELETIONS)
  if (found) return found
  makeDirectories(DELETIONS, 0o700)
  return FileDescriptor.open(DELETIONS, Open.ReadOnly)
}
