import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { close, type Fd, open } from "./descriptor.ts"
import { makeDirectories, readDirectory, readlink, removeDirectory } from "./files.ts"
import { isErrno, SyscallError } from "./syscall.ts"

function errnoOf(action: () => unknown): string {
  try {
    action()
    return "no error"
  } catch (error) {
    return error instanceof SyscallError ? error.errno : String(error)
  }
}

test("an error names the call, what it was about, the C library's words and the errno", () => {
  const error = new SyscallError("open", 2, '"/etc/nothing"')
  expect(error.message).toBe('open "/etc/nothing": No such file or directory (ENOENT)')
  expect(error).toMatchObject({ name: "SyscallError", errno: "ENOENT", call: "open" })
  expect(new SyscallError("poll", 22).message).toBe("poll: Invalid argument (EINVAL)")
})

test("isErrno knows an error by its errno name and nothing else", () => {
  const error = new SyscallError("open", 2)
  expect(isErrno(error, "EEXIST", "ENOENT")).toBe(true)
  expect(isErrno(error, "EEXIST")).toBe(false)
  expect(isErrno(new Error("ENOENT"), "ENOENT")).toBe(false)
  expect(isErrno({ errno: "ENOENT" }, "ENOENT")).toBe(false)
})

test("a text with a NUL byte is refused, since C would cut it short", () => {
  expect(errnoOf(() => open("/run/netns/a\0../../etc", 0))).toBe("EINVAL")
})

test("the very first failure of a process has its errno", () => {
  const script = `
    import { open } from ${JSON.stringify(join(import.meta.dir, "descriptor.ts"))}
    try { open("/dev/null/x", 0) } catch (error) { console.log(error.errno) }`
  const child = Bun.spawnSync([process.execPath, "-e", script])
  expect(child.stdout.toString()).toBe("ENOTDIR\n")
})

test("errno is that of the call just made, over thousands of different failures with collections in between", () => {
  const directory = mkdtempSync(join(tmpdir(), "libc-errno-"))
  try {
    writeFileSync(join(directory, "file"), "")
    const failures: [expected: string, action: () => unknown][] = [
      ["ENOENT", () => open(join(directory, "absent"), 0)],
      ["ENOTDIR", () => readDirectory(join(directory, "file"))],
      ["EINVAL", () => readlink(directory)],
      ["ENOTEMPTY", () => removeDirectory(directory)],
      ["EISDIR", () => open(directory, 1)],
      ["ENAMETOOLONG", () => makeDirectories(join(directory, "x".repeat(256)))],
      ["no error", () => close(-1 as Fd)], // sets errno, and nobody asks for it
    ]
    const wrong = new Set<string>()
    for (let round = 0; round < 2000; round++) {
      for (const [expected, action] of failures) {
        const found = errnoOf(action)
        if (found !== expected) wrong.add(`${found} for ${expected}`)
      }
      if (round % 500 === 0) Bun.gc(true)
    }
    expect([...wrong]).toEqual([])
  } finally {
    rmSync(directory, { recursive: true })
  }
})
