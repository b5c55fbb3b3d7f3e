import { mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { check, lock } from "proper-lockfile"
import { CniError, Code } from "../types/mod.ts"
import type { Runtime } from "./network.ts"

/** A lock whose holder died is free again after this time. */
const staleMs = 10_000
const pollMs = 50

/** No container ID starts with a dot. */
const everything = ".gc"

/**
 * Runs one operation on a container while no other operation on it runs, and no garbage collection (CNI 0.4.0, "CNI
 * Operations": no parallel operations on one container). Waits for the others, across processes that share the cache
 * directory. The lock is `CACHEDIR/locks/CONTAINERID`. Throws code 5 when it cannot be made, on a full disk for example;
 * with `ifPossible` the operation then runs without: cleaning up must not depend on being able to write.
 */
export async function withContainer<T>(
  runtime: Runtime,
  containerId: string,
  run: () => Promise<T>,
  options: { readonly ifPossible?: boolean } = {},
): Promise<T> {
  for (;;) {
    await using held = await acquire(runtime, containerId).catch((error: unknown) => {
      if (!options.ifPossible || runtime.signal?.aborted) throw error
      return undefined
    })
    if (held === undefined) return await run()
    // In this order: a collection takes its lock first and then waits for the containers'. One of us sees the other.
    if (!(await isLocked(held.directory, everything))) return await run()
    await held.release()
    await waitFor(runtime, held.directory, everything)
  }
}

/** Runs a garbage collection: waits for the operations that are under way and holds back new ones. */
export async function withEverything<T>(runtime: Runtime, run: () => Promise<T>): Promise<T> {
  await using held = await acquire(runtime, everything)
  for (const name of readdirSync(held.directory)) {
    if (name !== everything) await waitFor(runtime, held.directory, name)
  }
  return await run()
}

interface Held extends AsyncDisposable {
  readonly directory: string
  release(): Promise<void>
}

async function acquire(runtime: Runtime, name: string): Promise<Held> {
  const directory = join(runtime.cacheDir, "locks")
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    for (;;) {
      const unlock = await tryLock(directory, name)
      if (unlock) return { directory, release: unlock, [Symbol.asyncDispose]: unlock }
      await waitFor(runtime, directory, name)
    }
  } catch (cause) {
    if (runtime.signal?.aborted) throw cause
    throw new CniError(Code.Io, `Cannot lock "${join(directory, name)}"`, { cause })
  }
}

/** Takes a lock if it is free. The answer gives it back; a second call of it does nothing. */
async function tryLock(directory: string, name: string): Promise<(() => Promise<void>) | undefined> {
  let compromised = false
  try {
    const unlock = await lock(join(directory, name), {
      realpath: false,
      lockfilePath: join(directory, name),
      stale: staleMs,
      onCompromised: () => {
        compromised = true // this process was stopped for so long that another one went on
      },
    })
    let released = false
    return async () => {
      if (released || compromised) return
      released = true
      await unlock()
    }
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ELOCKED") return undefined
    throw error
  }
}

async function waitFor(runtime: Runtime, directory: string, name: string): Promise<void> {
  while (await isLocked(directory, name)) {
    runtime.signal?.throwIfAborted()
    await Bun.sleep(pollMs)
  }
}

function isLocked(directory: string, name: string): Promise<boolean> {
  return check(join(directory, name), { realpath: false, lockfilePath: join(directory, name), stale: staleMs })
}
