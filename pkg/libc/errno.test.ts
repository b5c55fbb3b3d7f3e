import { dlopen } from "bun:ffi"
import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"
import { close, type Fd, open } from "./descriptor.ts"
import { makeDirectories, readDirectory, removeDirectory } from "./directories.ts"
import { type ErrnoName, errnoName, errnoNumber, errnoText, isErrno, SyscallError, unlessErrno } from "./errno.ts"
import { readlink } from "./files.ts"

const known = Array.from({ length: 1000 }, (_, number) => number).filter((number) => /^E/.test(errnoName(number)))

test("numbers are those of this machine's C library", () => {
  const theirs = new Map<string, number>(Object.entries(constants.errno))
  const shared = known.filter((number) => theirs.has(errnoName(number)))
  expect(shared.length).toBeGreaterThan(70)
  for (const number of shared)
    expect(`${errnoName(number)} ${number}`).toBe(`${errnoName(number)} ${theirs.get(errnoName(number))}`)
})

test("1 to 133 have a name each but for the two that Linux left out, and so has what should stay in the kernel", () => {
  const named = Array.from({ length: 133 }, (_, at) => at + 1).filter((number) => number !== 41 && number !== 58)
  expect(known).toEqual([...named, 524]) // <asm-generic/errno.h>: EWOULDBLOCK is EAGAIN, EDEADLOCK is EDEADLK
})

test("a number is named as in <errno.h>, and one that no header knows is still shown", () => {
  expect(errnoName(2)).toBe("ENOENT")
  expect(errnoName(95)).toBe("EOPNOTSUPP")
  expect(errnoName(0)).toBe("errno 0")
  expect(errnoName(1234)).toBe("errno 1234")
})

test("a name has one number", () => {
  for (const number of known) expect(errnoNumber(errnoName(number) as ErrnoName)).toBe(number)
})

test("its words are those of glibc's strerror(3), for every number", () => {
  const { strerror } = dlopen("libc.so.6", { strerror: { args: ["i32"], returns: "cstring" } }).symbols
  for (let number = 1; number < 600; number++)
    expect(`${number}: ${errnoText(number)}`).toBe(`${number}: ${strerror(number)}`)
})

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
      ["no error", () => close(-1 as Fd)], // sets errno, which the test does not read
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

test("an error that is expected counts as no result, and any other is thrown", () => {
  const missing = () => readlink("/proc/none")
  expect(unlessErrno(missing, "ESRCH", "ENOENT")).toBeUndefined()
  expect(() => unlessErrno(missing, "ESRCH")).toThrow("ENOENT")
  expect(unlessErrno(() => "found", "ENOENT")).toBe("found")
})
