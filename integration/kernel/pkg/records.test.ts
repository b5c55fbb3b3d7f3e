/** Tests the ownership of directories, which only root can change, and the directories in which records may be. */
import { afterAll, expect, test } from "bun:test"
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { findExposure, Records } from "../../../pkg/records/mod.ts"

const top = mkdtempSync(join(tmpdir(), "cni-records-"))
afterAll(() => rmSync(top, { recursive: true }))

function make(name: string, user: number, group: number, mode: number): string {
  const path = join(top, name)
  mkdirSync(path)
  chownSync(path, user, group)
  chmodSync(path, mode)
  return path
}

test.each([
  ["of another", 1234, 0, 0o755, " belongs to user 1234"],
  ["of another, though it is sticky", 1234, 0, 0o1755, " belongs to user 1234"],
  ["that another group may write to", 0, 1234, 0o775, ""],
  ["that the first group after root's may write to", 0, 1, 0o775, ""],
])("a directory %s is not root's alone, nor is what is in it", (name, user, group, mode, says) => {
  const path = make(name, user, group, mode)
  const exposure = says ? `"${path}"${says}` : `group ${group} may write to "${path}"`
  for (const each of [path, `${path}/not-yet`]) expect(findExposure(each)).toBe(exposure)
  expect(findExposure(top, name)).toBe(exposure)
})

test.each([
  ["of another group that may not write", 1234, 0o755],
  ["that root's group may write to", 0, 0o775],
])("a directory %s is root's", (name, group, mode) => {
  expect(findExposure(make(name, 0, group, mode))).toBeUndefined()
})

test("a link of another user may lead anywhere", () => {
  const [own, link] = [make("own", 0, 0, 0o755), join(top, "link")]
  symlinkSync(own, link)
  expect(findExposure(link)).toBeUndefined()
  lchownSync(link, 1234, 0)
  expect(findExposure(link)).toBe(`the link "${link}" belongs to user 1234`)
})

test("records can be kept in a directory of which nothing is there but the root", () => {
  expect(() => new Records("/not-there-yet/backups", "backup").requireWritable()).not.toThrow()
  for (const name of ["not-there-yet", ".status"]) expect(readdirSync("/")).not.toContain(name)
})
