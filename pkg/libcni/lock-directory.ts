import {
  type Fd,
  FileDescriptor,
  findStat,
  isErrno,
  makeDirectory,
  Open,
  removeDirectory,
  type Stat,
  setModified,
  statOpen,
  tryLock,
  unlessErrno,
} from "../libc/mod.ts"
import { every, newStop, onLeave, type Stop } from "../loop/mod.ts"

/**
 * A lock that is a directory. The process that created the directory holds the lock, and updates the directory's
 * modification time each second to show that it is alive. This is the protocol of npm's `proper-lockfile`, so it also
 * excludes processes that use that library, such as earlier releases. Unlike flock(2), it also works on a file system
 * that several hosts share.
 */

/** The age after which a lock is free, because its holder is dead. */
export const staleMs = 10_000
/** The interval at which a holder renews its lock and checks that it still has it. */
const heartbeatMs = 1_000

/** A lock that is held until it is disposed or lost. `lost` aborts when it is lost. */
export class LockDirectory implements Disposable {
  readonly #path: string
  readonly #lost: Stop = newStop()
  readonly #ends: readonly Disposable[]
  readonly #lossOf: (path: string) => Error
  #seen: Stat
  #aliveAt: number
  #isHeld = true

  /** Takes a lock if it is free. `lossOf` creates the error that reports its loss. Throws `SyscallError`. */
  static take(path: string, lossOf: (path: string) => Error): LockDirectory | undefined {
    if (!makeIfFree(path)) return undefined
    const made = findStat(path)
    return made && new LockDirectory(path, made, lossOf)
  }

  private constructor(path: string, made: Stat, lossOf: (path: string) => Error) {
    this.#path = path
    this.#seen = made
    this.#lossOf = lossOf
    this.#aliveAt = Date.now()
    this.#ends = [every(heartbeatMs, () => this.#beat()), onLeave(() => this[Symbol.dispose]())]
  }

  /** A signal that aborts when the lock belongs to another process or was removed. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Renews the lock. After an error, which may be temporary, the lock is lost only once others may take it. */
  #beat(): void {
    try {
      const found = findStat(this.#path)
      const now = Date.now()
      const isOurs = found && isSame(found, this.#seen)
      if (isOurs) setModified(this.#path, BigInt(now) * 1_000_000n)
      const set = isOurs ? findStat(this.#path) : undefined // as the file system stores it: some store only seconds
      if (!set || set.inode !== found?.inode) this.#lose()
      else [this.#seen, this.#aliveAt] = [set, now]
    } catch (error) {
      if (!isErrno(error)) throw error
      if (Date.now() > this.#aliveAt + staleMs) this.#lose()
    }
  }

  #lose(): void {
    this.#end()
    this.#lost.abort(this.#lossOf(this.#path))
  }

  #end(): void {
    this.#isHeld = false
    for (const end of this.#ends) end[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    if (!this.#isHeld) return
    this.#end()
    unlessErrno(() => {
      const found = findStat(this.#path)
      if (found && isSame(found, this.#seen)) removeDirectory(this.#path)
    })
  }
}

/** Reports whether a living process holds a lock. Throws `SyscallError`. */
export function isLocked(path: string): boolean {
  const found = findStat(path)
  return found !== undefined && !isStale(found)
}

/** Creates the directory, after removing that of a dead holder. Returns false if another process was faster. */
function makeIfFree(path: string): boolean {
  return make(path) || (!isLocked(path) && removeDead(path) && make(path))
}

/**
 * Removes the directory of a dead holder. Only one process may do this, because a second one could remove the new lock
 * of the first. Returns whether the path is free. The open descriptor prevents a new directory from getting the same
 * inode number.
 */
function removeDead(path: string): boolean {
  using dead = unlessErrno(() => FileDescriptor.open(path, Open.ReadOnly), "ENOENT")
  if (dead === undefined) return true
  if (!isForUs(dead.fd)) return false
  const found = findStat(path)
  if (found === undefined) return true
  if (found.inode !== statOpen(dead.fd).inode || !isStale(found)) return false
  unlessErrno(() => removeDirectory(path), "ENOENT")
  return true
}

/** Reports whether no other process removes the directory. Returns true if flock(2) does not work, as on Node. */
function isForUs(fd: Fd): boolean {
  try {
    return tryLock(fd)
  } catch (error) {
    if (isErrno(error)) return true
    throw error
  }
}

function make(path: string): boolean {
  return (
    unlessErrno(() => {
      makeDirectory(path, 0o700)
      return true
    }, "EEXIST") ?? false
  )
}

function isStale(found: Stat): boolean {
  return Number(found.modified / 1_000_000n) < Date.now() - staleMs
}

function isSame(one: Stat, other: Stat): boolean {
  return one.inode === other.inode && one.modified === other.modified
}
