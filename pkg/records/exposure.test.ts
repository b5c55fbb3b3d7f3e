import { afterAll, expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { findExposure, requireOwn } from "./mod.ts"

const top = mkdtempSync(join(tmpdir(), "cni-exposure-"))
afterAll(() => rmSync(top, { recursive: true, force: true }))

/** Creates a directory with this mode, regardless of the umask. */
function make(name: string, mode = 0o755): string {
  const path = join(top, name)
  mkdirSync(path)
  chmodSync(path, mode)
  return path
}

test("a directory of ours that only we may write to is trusted, and so is one that does not exist yet", () => {
  const own = make("own")
  expect(findExposure(own)).toBeUndefined()
  expect(findExposure(`${own}/not/yet`)).toBeUndefined()
  expect(findExposure(`${own}/./..///own/`)).toBeUndefined()
  expect(findExposure("/var/lib")).toBeUndefined()
  expect(findExposure("/")).toBeUndefined()
})

test("one that others may write to is not, also a sticky one, nor is one on the way that is not sticky [S26]", () => {
  const open = make("open", 0o777)
  expect(findExposure(open)).toBe(`all users may write to "${open}"`)
  const sticky = make("sticky", 0o1777)
  expect(findExposure(sticky)).toBe(`all users may write to "${sticky}"`)
  expect(findExposure(`${sticky}/not-yet`)).toBeUndefined()
  mkdirSync(`${sticky}/own`)
  mkdirSync(`${open}/own`)
  expect(findExposure(`${sticky}/own`)).toBeUndefined()
  expect(findExposure(`${open}/own`)).toBe(`all users may write to "${open}"`)
  expect(findExposure(`${open}/not-yet`)).toBe(`all users may write to "${open}"`)
})

test("a link is followed, and all that it leads through is looked at [S27]", () => {
  const hidden = make("hidden", 0o777)
  mkdirSync(`${hidden}/store`)
  symlinkSync(`${hidden}/store`, join(top, "absolute"))
  symlinkSync("hidden/../hidden/store", join(top, "relative"))
  symlinkSync("round", join(top, "round"))
  for (const link of ["absolute", "relative"])
    expect(findExposure(join(top, link))).toBe(`all users may write to "${hidden}"`)
  expect(findExposure(join(top, "round"))).toBeUndefined() // the next call that uses the path gets ELOOP
  const good = make("good")
  symlinkSync(good, join(top, "to-good"))
  expect(findExposure(join(top, "to-good"))).toBeUndefined()
})

test("what is not a directory is left to the call that uses it", () => {
  writeFileSync(join(top, "file"), "")
  chmodSync(join(top, "file"), 0o666)
  expect(findExposure(join(top, "file"))).toBeUndefined()
  expect(findExposure(join(top, "file/below"))).toBeUndefined()
})

test("a subdirectory that is a link, or open to others, is named [S28]", () => {
  const store = make("store")
  expect(findExposure(store, "index")).toBeUndefined()
  symlinkSync("/etc", `${store}/planted`)
  mkdirSync(`${store}/index`)
  expect(findExposure(store, "index")).toBeUndefined()
  expect(findExposure(store, "planted")).toBe(`"${store}/planted" is a link`)
  chmodSync(`${store}/index`, 0o777)
  expect(findExposure(store, "index")).toBe(`all users may write to "${store}/index"`)
})

test("a relative path is looked at from the working directory on", () => {
  const open = make("from-here", 0o777)
  const path = relative(process.cwd(), open)
  expect(findExposure(path)).toBe(`all users may write to "./${path}"`)
  expect(findExposure(relative(process.cwd(), join(top, "own")))).toBeUndefined()
})

test("as many links are followed as the kernel follows, and a link to the root is one", () => {
  const open = make("end", 0o777)
  symlinkSync(open, join(top, "link1"))
  for (let at = 2; at <= 40; at++) symlinkSync(`link${at - 1}`, join(top, `link${at}`))
  expect(findExposure(join(top, "link40"))).toBe(`all users may write to "${open}"`)
  symlinkSync("/", join(top, "root"))
  expect(findExposure(join(top, "root"))).toBeUndefined()
  expect(findExposure(join(top, "root", open))).toBe(`all users may write to "${open}"`)
})

test("the error says what is wrong and what to do", () => {
  const open = make("another", 0o777)
  expect(() => requireOwn(open)).toThrow(
    expect.objectContaining({
      code: 5,
      message: `Cannot trust "${open}": all users may write to "${open}"`,
      details:
        "run chown root and chmod go-w on it, or mount the tmpfs with mode=0755; files of other users in it are kept: inspect them, or remove the directory",
    }),
  )
  expect(() => requireOwn(top)).not.toThrow()
})
