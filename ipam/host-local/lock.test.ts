import { expect, test } from "bun:test"
import { mkdirSync, unlinkSync } from "node:fs"
import { CniError } from "../../pkg/types/mod.ts"
import { checkStatus } from "./inventory.ts"
import { lockStore } from "./lock.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

const ranges = [{ subnet: "10.0.0.0/24" }]

/** Starts a process that holds the lock until its stdin is closed, by flock(1), which locks like upstream. */
async function holder(directory: string) {
  const command = ["flock", `${directory}/lock`, "sh", "-c", "echo locked; read -r _; sleep 0.05"]
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe" })
  await child.stdout.getReader().read()
  return child
}

test("a directory that does not exist cannot be locked, and is not made", () => {
  expect(lockStore("/nonexistent/network")).toBeUndefined()
})

test("#43 the error after waiting in vain is code 11 and names the process that holds the lock, and its program", async () => {
  using store = new TemporaryStore(ranges)
  mkdirSync(store.directory, { recursive: true })
  const child = await holder(store.directory)
  try {
    const before = performance.now()
    const error = await Promise.try(() => lockStore(store.directory, 60)).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(CniError)
    expect(error.code).toBe(11)
    expect(error.message).toBe(
      `Cannot lock "${store.path("lock")}": held by process ${child.pid} (flock), waited for 0.06 s`,
    )
    expect(error.details).toBe("find out why that process waits, or end it: the kernel then releases the lock")
    expect(performance.now() - before).toBeGreaterThanOrEqual(60)
  } finally {
    child.stdin.end()
    await child.exited
  }
})

test("what was waited for in vain is not waited for again, until it was to be had", async () => {
  using store = new TemporaryStore(ranges)
  mkdirSync(store.directory, { recursive: true })
  const child = await holder(store.directory)
  expect(() => lockStore(store.directory, 20)).toThrow("waited for 0.02 s")
  expect(() => lockStore(store.directory, 60_000)).toThrow("waited for 0 s")
  child.stdin.end()
  await child.exited
  using _held = lockStore(store.directory)
  expect(() => lockStore(store.directory, 30)).toThrow("waited for 0.03 s")
})

test("#45 a lock is ours soon after its holder ends, however it ends", async () => {
  using store = new TemporaryStore(ranges)
  mkdirSync(store.directory, { recursive: true })
  const child = await holder(store.directory)
  child.stdin.end() // the process ends in 50 ms, during the wait
  const before = performance.now()
  using lock = lockStore(store.directory, 60_000)
  expect(lock).toBeDefined()
  expect(performance.now() - before).toBeLessThan(50_000)
  await child.exited
})

test("a lock file that was removed and created again is locked in its new form", async () => {
  using store = new TemporaryStore(ranges)
  mkdirSync(store.directory, { recursive: true })
  const child = await holder(store.directory)
  unlinkSync(store.path("lock")) // like `rm -f *` in the directory
  using lock = lockStore(store.directory, 60)
  expect(lock).toBeDefined()
  expect(() => lockStore(store.directory, 20)).toThrow("held by process")
  child.stdin.end()
  await child.exited
})

test("STATUS names the process that holds the lock all the time, with code 50, and is content once it is free", async () => {
  using store = new TemporaryStore(ranges)
  mkdirSync(store.directory, { recursive: true })
  const child = await holder(store.directory)
  try {
    const error = await Promise.try(() => checkStatus(store.open(), [])).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 50, message: expect.stringContaining("Cannot reserve addresses in") })
    expect(`${error.message} ${error.details} ${error.cause?.message}`).toContain(
      `held by process ${child.pid} (flock)`,
    )
  } finally {
    child.stdin.end()
    await child.exited
  }
  checkStatus(store.open(), [])
}, 20_000)
