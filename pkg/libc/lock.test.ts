import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileDescriptor, lockWithin, Open, Poll, poll, tryLock, tryLockShared, watchClosing } from "./mod.ts"

let directory = ""
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "libc-lock-"))
})
afterAll(() => rmSync(directory, { recursive: true }))

let files = 0
function emptyFile(): string {
  const path = join(directory, `f${files++}`)
  writeFileSync(path, "")
  return path
}

describe("a lock", () => {
  test("that we have is not to be had by another process, until we close the file", () => {
    const path = emptyFile()
    // flock(1) returns 1 if the lock is taken
    const theirs = () => Bun.spawnSync(["flock", "--nonblock", path, "true"]).exitCode
    {
      using opened = FileDescriptor.open(path, Open.ReadOnly)
      expect(tryLock(opened.fd)).toBe(true)
      expect(theirs()).toBe(1)
    }
    expect(theirs()).toBe(0)
  })

  test("may be asked for until it is to be had, and for so long only", () => {
    let asked = 0
    expect(lockWithin(10_000, () => ++asked === 3)).toBe(true)
    expect(asked).toBe(3)
    expect(lockWithin(0, () => false)).toBe(false)
    expect(lockWithin(5, () => ++asked < 0)).toBe(false)
    expect(asked).toBeGreaterThan(3)
  })

  test("that another process has is not to be had by us, until it ends", async () => {
    const path = emptyFile()
    const other = Bun.spawn(["flock", path, "sh", "-c", "echo locked; cat"], { stdin: "pipe", stdout: "pipe" })
    await other.stdout.getReader().read()
    using opened = FileDescriptor.open(path, Open.ReadOnly)
    expect(tryLock(opened.fd)).toBe(false)
    other.stdin.end()
    await other.exited
    expect(tryLock(opened.fd)).toBe(true)
  })

  test("that is shared is to be had by others who share it, and keeps out who wants it alone", () => {
    const path = emptyFile()
    const theirs = (kind: string) => Bun.spawnSync(["flock", "--nonblock", kind, path, "true"]).exitCode
    using opened = FileDescriptor.open(path, Open.ReadOnly)
    expect(tryLockShared(opened.fd)).toBe(true)
    expect([theirs("--shared"), theirs("--exclusive")]).toEqual([0, 1])
  })

  test("that is shared is not to be had while another process has it alone", async () => {
    const path = emptyFile()
    const other = Bun.spawn(["flock", path, "sh", "-c", "echo locked; cat"], { stdin: "pipe", stdout: "pipe" })
    await other.stdout.getReader().read()
    using opened = FileDescriptor.open(path, Open.ReadOnly)
    expect(tryLockShared(opened.fd)).toBe(false)
    other.stdin.end()
    await other.exited
    expect(tryLockShared(opened.fd)).toBe(true)
    expect(Bun.spawnSync(["flock", "--nonblock", path, "true"]).exitCode).toBe(1)
  })

  test("cannot be had on a descriptor that is not open", () => {
    const closed = FileDescriptor.open("/dev/null", Open.ReadOnly)
    closed[Symbol.dispose]()
    expect(() => tryLock(closed.fd)).toThrow("EBADF")
  })
})

test("a watch is readable once a process has closed the file, and not before", () => {
  const path = emptyFile()
  using watch = watchClosing(path)
  const opened = FileDescriptor.open(path, Open.ReadOnly)
  expect(poll(watch.fd, Poll.In, 0)).toBe(false)
  opened[Symbol.dispose]()
  expect(poll(watch.fd, Poll.In, 0)).toBe(true)
})

test("a file that does not exist cannot be watched", () => {
  expect(() => watchClosing("/nonexistent/file")).toThrow("ENOENT")
})
