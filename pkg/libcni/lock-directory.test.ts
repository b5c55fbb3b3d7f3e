import { describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, rmSync, statSync, utimesSync } from "node:fs"
import { join } from "node:path"
import { check, lock } from "proper-lockfile"
import { isLocked, LockDirectory } from "./lock-directory.ts"
import { Lab } from "./testing/lab.ts"

const loss = () => new Error("lost")
const staleMs = 10_000
/** The margin to the limit, for a busy machine. */
const roomMs = 2_000

function place(): { path: string } & Disposable {
  const lab = new Lab()
  return { path: join(lab.root, "lock"), [Symbol.dispose]: () => lab[Symbol.dispose]() }
}

/** Takes and tests a lock with the library of earlier releases. */
const theirs = (path: string) => {
  const options = { realpath: false, lockfilePath: path, stale: staleMs }
  return { take: () => lock(path, options), isLocked: () => check(path, options) }
}

/** Sets the time at which the holder last renewed the lock. */
function age(path: string, ms: number): void {
  const time = new Date(Date.now() - ms)
  utimesSync(path, time, time)
}

test("a lock is held by one, until it is disposed of", () => {
  using at = place()
  {
    using held = LockDirectory.take(at.path, loss)
    expect([held?.lost.aborted, isLocked(at.path), LockDirectory.take(at.path, loss)]).toEqual([false, true, undefined])
    expect(statSync(at.path).mode & 0o777).toBe(0o700)
  }
  expect([existsSync(at.path), isLocked(at.path)]).toEqual([false, false])
  using again = LockDirectory.take(at.path, loss)
  expect(again).toBeDefined()
})

test("a lock whose holder is dead is free after 10 s, and not before", () => {
  using at = place()
  mkdirSync(at.path)
  age(at.path, staleMs - roomMs)
  expect([isLocked(at.path), LockDirectory.take(at.path, loss)]).toEqual([true, undefined])
  age(at.path, staleMs + 1)
  expect(isLocked(at.path)).toBe(false)
  using taken = LockDirectory.take(at.path, loss)
  expect([taken?.lost.aborted, isLocked(at.path)]).toEqual([false, true])
})

test.each([
  ["removed", (path: string) => rmSync(path, { recursive: true })],
  [
    "taken by another process",
    (path: string) => {
      rmSync(path, { recursive: true })
      mkdirSync(path)
    },
  ],
  ["said to be alive by another process", (path: string) => age(path, -5_000)],
])("a holder learns that its lock was %s, and leaves what is there", async (_, meddle) => {
  using at = place()
  using held = LockDirectory.take(at.path, loss)
  meddle(at.path)
  const isThere = existsSync(at.path)
  await new Promise((resolve) => held?.lost.addEventListener("abort", resolve))
  expect(String(held?.lost.reason)).toBe("Error: lost")
  held?.[Symbol.dispose]()
  expect(existsSync(at.path)).toBe(isThere)
})

describe("this lock and that of proper-lockfile are one:", () => {
  test("ours is theirs, for as long as it is held", async () => {
    using at = place()
    {
      using _ = LockDirectory.take(at.path, loss)
      expect(await theirs(at.path).isLocked()).toBe(true)
      await expect(theirs(at.path).take()).rejects.toThrow("Lock file is already being held")
    }
    const unlock = await theirs(at.path).take()
    expect([isLocked(at.path), LockDirectory.take(at.path, loss)]).toEqual([true, undefined])
    await unlock()
    expect(isLocked(at.path)).toBe(false)
  })

  test("each says that it is alive so that the other sees it", async () => {
    using at = place()
    using held = LockDirectory.take(at.path, loss)
    const before = statSync(at.path).mtimeMs
    while (statSync(at.path).mtimeMs === before) await Bun.sleep(1)
    expect(Math.abs(Date.now() - statSync(at.path).mtimeMs)).toBeLessThan(staleMs / 2)
    expect([held?.lost.aborted, await theirs(at.path).isLocked()]).toEqual([false, true])
  })

  test("each takes over what a dead one of the other kind has left, after 10 s and not before", async () => {
    using at = place()
    mkdirSync(at.path)
    age(at.path, staleMs - roomMs)
    await expect(theirs(at.path).take()).rejects.toThrow("Lock file is already being held")
    age(at.path, staleMs + 1)
    const unlock = await theirs(at.path).take()
    expect(LockDirectory.take(at.path, loss)).toBeUndefined()
    await unlock()
  })
})
