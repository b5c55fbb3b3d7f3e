import { afterAll, expect, test } from "bun:test"
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { refusalOf } from "../types/testing.ts"
import { findNamespacePath, listNamespaces, NamespaceFile, Netns } from "./mod.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-netns-"))
const file = join(directory, "left-behind")
writeFileSync(file, "")
afterAll(() => rmSync(directory, { recursive: true }))

const own = "/proc/self/ns/net"
/** Devices whose drivers answer an unknown ioctl(2) with EBADFD and ENOSYS. */
const devices = ["/dev/net/tun", "/dev/loop-control"]

/** Returns the own namespace's expected identity. nsfs has no device: major number 0, minor number small. */
function identityOfOwn(): string {
  const { dev, ino } = statSync(own)
  return `0:${dev}:${ino}`
}

test("#44 nothing at the path is code 4 like anything else that is not a network namespace: a lease may be left", () => {
  const details = "expected a path such as /run/netns/NAME or /proc/PID/ns/net"
  const expectRefused = (paths: readonly string[], reason: string) => {
    for (const path of paths) {
      const message = `Cannot use "${path}" as CNI_NETNS: ${reason}`
      expect(refusalOf(() => Netns.open(path))).toMatchObject({ code: 4, message, details })
    }
  }
  expectRefused([join(directory, "none"), `${file}/below`], "it does not exist")
  const others = [file, directory, "/dev/null", "/proc/self/ns/uts", "/proc/self/status", ...devices.filter(existsSync)]
  expectRefused(others, "it is not a network namespace")
})

test("what cannot be opened is told by the kernel's reason, also when it was tried before", () => {
  const path = join(directory, "circle")
  symlinkSync("circle", path)
  using opened = NamespaceFile.open(path)
  expect([opened.path, opened.isOwn, opened.identity]).toEqual([path, false, undefined])
  for (const place of [path, opened]) {
    const refusal = refusalOf(() => Netns.open(place))
    expect(refusal).toMatchObject({ code: 4, message: `Cannot use "${path}" as CNI_NETNS` })
    expect(refusal.details).toEndWith("(ELOOP)")
  }
})

test("for a cleanup all of these mean that the namespace no longer exists, and so does an empty path", () => {
  const loop = join(directory, "loop")
  symlinkSync("loop", loop)
  const long = join(directory, "n".repeat(256))
  for (const path of ["", join(directory, "none"), file, "/dev/null", "/proc/self/ns/uts", loop, long, ...devices]) {
    expect(Netns.find(path)).toBeUndefined()
    using opened = NamespaceFile.open(path)
    expect(Netns.find(opened)).toBeUndefined()
  }
})

test("a namespace opens, and what runs in it runs there and comes back", () => {
  using found = Netns.open(own)
  expect(found.path).toBe(own)
  expect(found.fd).toBeGreaterThan(2)
  expect(readlinkSync("/proc/thread-self/ns/net")).toMatch(/^net:\[\d+\]$/)
})

function isOwn(path: string): boolean {
  using file = NamespaceFile.open(path)
  return file.isOwn
}

test("what was opened once stays the same, also when the path changes [S71]", () => {
  const path = join(directory, "moving")
  symlinkSync(own, path)
  using namespace = NamespaceFile.open(path)
  rmSync(path)
  for (const target of [undefined, file, "/proc/self/ns/uts"]) {
    if (target !== undefined) symlinkSync(target, path)
    expect(namespace.isOwn).toBe(true)
    expect(namespace.identity).toBe(identityOfOwn())
    {
      using opened = Netns.open(namespace)
      expect([opened.path, opened.isOwn]).toEqual([path, true])
    }
    // `find` duplicates the descriptor, so disposing one object leaves the others open
    expect(Netns.find(namespace)?.isOwn).toBe(true)
    rmSync(path, { force: true })
  }
})

test("what was opened is closed in the end, also what turns out to be no namespace", () => {
  const open = () => readdirSync("/proc/self/fd").length
  const before = open()
  {
    using file = NamespaceFile.open(own)
    using namespace = Netns.open(file)
    expect([namespace.isOwn, open()]).toEqual([true, before + 2])
  }
  for (const path of [file, "/proc/self/ns/uts"]) {
    expect(() => Netns.open(path)).toThrow("not a network namespace")
    expect(Netns.find(path)).toBeUndefined()
  }
  expect(findNamespacePath(1n)).toBeUndefined()
  expect(open()).toBe(before)
})

test("nothing at the path is not an error until it is needed, and stays nothing", () => {
  const path = join(directory, "later")
  using namespace = NamespaceFile.open(path)
  symlinkSync(own, path)
  expect([namespace.isOwn, namespace.identity]).toEqual([false, undefined])
  expect(Netns.find(namespace)).toBeUndefined()
  expect(refusalOf(() => Netns.open(namespace))).toMatchObject({ code: 4, message: expect.stringContaining(path) })
})

test("the own namespace is known by device and inode, under any path", () => {
  expect(isOwn(own)).toBe(true)
  expect(isOwn(`/proc/${process.pid}/ns/net`)).toBe(true)
  expect(isOwn("/proc/self/ns/uts")).toBe(false)
  expect(isOwn("")).toBe(false)
  expect(isOwn(join(directory, "none"))).toBe(false)
})

test("a namespace is found by its inode, through a process that is in it", () => {
  const { ino } = statSync(own)
  const path = findNamespacePath(BigInt(ino)) ?? ""
  expect(statSync(path).ino).toBe(ino)
  expect(findNamespacePath(1n)).toBeUndefined()
})

test("each namespace that processes are in has one path in the list, the own one too", () => {
  const inodeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.ino ?? []
  const ids = listNamespaces().flatMap(inodeOf) // other processes create and delete namespaces during the test
  expect(ids.filter((id) => id === inodeOf(own))).toHaveLength(1)
  expect(new Set(ids).size).toBe(ids.length)
})
