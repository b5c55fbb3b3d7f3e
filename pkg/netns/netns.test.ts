import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readlinkSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { refusalOf } from "../types/testing.ts"
import { isOwnNamespace, Netns, namespaceId } from "./mod.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-netns-"))
const file = join(directory, "left-behind")
writeFileSync(file, "")
afterAll(() => rmSync(directory, { recursive: true }))

const own = "/proc/self/ns/net"

test("#44 nothing at the path is code 4 like anything else that is no network namespace: a lease may be left", () => {
  for (const path of [join(directory, "none"), `${file}/below`]) {
    expect(refusalOf(() => Netns.open(path))).toMatchObject({
      code: 4,
      message: `Cannot use "${path}" as CNI_NETNS: it does not exist`,
    })
  }
  for (const path of [file, directory, "/dev/null", "/proc/self/ns/uts", "/proc/self/status"]) {
    expect(refusalOf(() => Netns.open(path))).toMatchObject({ code: 4, message: expect.stringContaining(path) })
  }
})

test("for a cleanup all of these mean that the namespace has gone, and so does an empty path", () => {
  for (const path of ["", join(directory, "none"), file, "/dev/null", "/proc/self/ns/uts"]) {
    expect(Netns.find(path)).toBeUndefined()
  }
})

test("a namespace opens, and what runs in it runs there and comes back", () => {
  using found = Netns.open(own)
  expect(found.path).toBe(own)
  expect(found.fd).toBeGreaterThan(2)
  expect(readlinkSync("/proc/thread-self/ns/net")).toMatch(/^net:\[\d+\]$/)
})

test("the own namespace is known by device and inode, under any path", () => {
  expect(isOwnNamespace(own)).toBe(true)
  expect(isOwnNamespace(`/proc/${process.pid}/ns/net`)).toBe(true)
  expect(isOwnNamespace("/proc/self/ns/uts")).toBe(false)
  expect(isOwnNamespace("")).toBe(false)
  expect(isOwnNamespace(join(directory, "none"))).toBe(false)
  expect(namespaceId(join(directory, "none"))).toBeUndefined()
})
