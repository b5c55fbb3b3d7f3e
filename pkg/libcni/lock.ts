import { monotonicMs } from "../engine/mod.ts"
import { join, makeDirectories, readDirectory } from "../libc/mod.ts"
import { anyOf, newStop } from "../loop/mod.ts"
import { requireOwn } from "../records/mod.ts"
import { CniError, Code, isCniError } from "../types/mod.ts"
import { isLocked, LockDirectory, staleMs } from "./lock-directory.ts"
import type { Runtime } from "./network.ts"
import { pause, throwIfStopped } from "./stop.ts"

const pollMs = 50
/** The default timeout for a lock. kubelet gives up after two minutes. */
const defaultWaitMs = 120_000

/** The name of the lock for garbage collection. No container ID starts with a dot. */
const everything = ".gc"

/**
 * An operation. Its runtime is the caller's, but the signal also aborts when the lock is `lost`. The operation must
 * then stop, because another process may work on the container.
 */
type Operation<T> = (runtime: Runtime, lost: AbortSignal) => Promise<T>

/** The error after losing the lock: the process did not run for too long, or the lock was removed. Code 11. */
class LockLost extends CniError {
  constructor(file: string) {
    super(Code.TryAgainLater, `Cannot continue: lost the lock "${file}"`, {
      details: "this process was suspended for too long, or the lock was removed; its work is only partly done",
    })
  }
}

/**
 * Runs an operation on a container while no other operation on that container and no garbage collection runs (CNI
 * 0.4.0, "CNI Operations": no parallel operations on one container). Waits for operations of all processes that share
 * the cache directory, and throws code 11 after a timeout. The lock is `CACHEDIR/locks/CONTAINERID`. Throws code 5 if
 * the lock cannot be created, for example on a full disk. With `ifPossible`, runs the operation without a lock in this
 * case, because cleaning up must not depend on being able to write. Stops an operation that loses its lock, and throws
 * code 11.
 */
export async function withContainer<T>(
  runtime: Runtime,
  containerId: string,
  run: Operation<T>,
  options: { readonly ifPossible?: boolean } = {},
): Promise<T> {
  const wait = new Wait(runtime)
  for (;;) {
    const held = await acquire(wait, runtime, containerId).catch((error: unknown) => {
      if (!options.ifPossible || !isCniError(error, Code.Io)) throw error
      return undefined
    })
    if (held === undefined) return await run(runtime, newStop().signal)
    const collection = join(locksOf(runtime), everything)
    {
      using _ = held
      // The order matters. A garbage collection takes its own lock first and then waits for the containers' locks, so
      // one of the two sees the other.
      if (!isLocked(collection)) return await guarded(runtime, held, run)
    }
    await wait.until(collection)
  }
}

/** Runs a garbage collection. Waits for running operations, and delays new ones. */
export async function withEverything<T>(runtime: Runtime, run: Operation<T>): Promise<T> {
  const wait = new Wait(runtime)
  using held = await acquire(wait, runtime, everything)
  for (const name of readDirectory(locksOf(runtime))) {
    if (name !== everything) await wait.until(join(locksOf(runtime), name))
  }
  return await guarded(runtime, held, run)
}

async function guarded<T>(runtime: Runtime, held: LockDirectory, run: Operation<T>): Promise<T> {
  // The lock's signal is first: if both abort, the caller learns that the lock is lost.
  using either = anyOf(held.lost, runtime.signal)
  try {
    return await run({ ...runtime, signal: either.signal }, held.lost)
  } catch (error) {
    throw held.lost.aborted ? held.lost.reason : error
  }
}

const locksOf = ({ cacheDir }: Runtime) => join(cacheDir, "locks")

async function acquire(wait: Wait, runtime: Runtime, name: string): Promise<LockDirectory> {
  throwIfStopped(runtime.signal)
  const path = join(locksOf(runtime), name)
  requireOwn(runtime.cacheDir, "locks")
  try {
    makeDirectories(locksOf(runtime), 0o700)
    requireOwn(runtime.cacheDir, "locks") // another process may have created it in between
    for (;;) {
      const held = LockDirectory.take(path, (lost) => new LockLost(lost))
      if (held) return held
      do await wait.once(path)
      while (isLocked(path))
    }
  } catch (cause) {
    if (runtime.signal?.aborted || isCniError(cause, Code.TryAgainLater)) throw cause
    throw new CniError(Code.Io, `Cannot lock "${path}"`, { cause })
  }
}

/** The wait for locks of other processes, with one deadline for all locks. */
class Wait {
  readonly #runtime: Runtime
  readonly #end: number

  constructor(runtime: Runtime) {
    this.#runtime = runtime
    this.#end = monotonicMs() + (runtime.lockTimeoutMs ?? defaultWaitMs)
  }

  /** Waits until a lock is free. Throws code 11 at the deadline. */
  async until(path: string): Promise<void> {
    while (isLocked(path)) await this.once(path)
  }

  /** Waits for one interval. Throws code 11 at the deadline. */
  async once(path: string): Promise<void> {
    throwIfStopped(this.#runtime.signal)
    if (monotonicMs() >= this.#end) throw this.#tooLong(path)
    await pause(pollMs, this.#runtime.signal)
  }

  #tooLong(file: string): CniError {
    const seconds = (this.#runtime.lockTimeoutMs ?? defaultWaitMs) / 1000
    return new CniError(Code.TryAgainLater, `Cannot lock "${file}": another operation has held it for ${seconds} s`, {
      details: `the lock ends with its process, after ${staleMs / 1000} s at the latest`,
    })
  }
}
