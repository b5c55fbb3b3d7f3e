import { afterEach, beforeEach, expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isRecordOf, Records, recordName } from "./records.ts"

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "records-"))
})
afterEach(() => rmSync(directory, { recursive: true }))

const name = recordName({ network: "lab", containerId: "c1", ifName: "eth0" })
const bytes = (text: string) => new TextEncoder().encode(text)

test("a record has all three names, is root's alone, is replaced as a whole, and leaves no draft [S33]", () => {
  const records = new Records(join(directory, "a/b"), "backup")
  expect(records.read(name)).toBeUndefined()
  expect(records.list()).toEqual([])
  writeFileSync(join(directory, "draft"), "")
  records.write(name, bytes("first"))
  writeFileSync(records.pathOf(`.${name}`), "of a call that was killed")
  records.write(name, bytes("second"))
  expect(records.read(name)).toEqual(bytes("second"))
  expect(readdirSync(records.directory)).toEqual(["lab:c1:eth0.json"])
  expect([statSync(records.directory), statSync(records.pathOf(name))].map(({ mode }) => mode & 0o777)).toEqual([
    0o700, 0o600,
  ])
  writeFileSync(records.pathOf(`.${name}`), "")
  for (const _ of ["once", "twice"]) records.remove(name)
  expect(records.list()).toEqual([])
})

test("a record is of its network alone", () => {
  expect(isRecordOf(name, "lab")).toBe(true)
  for (const network of ["la", "lab-2", "c1"]) expect(isRecordOf(name, network)).toBe(false)
  expect(isRecordOf("lab:c1:eth0", "lab")).toBe(false)
})

test("errors name the file, and what it is", () => {
  const records = new Records(directory, "backup")
  mkdirSync(records.pathOf(name))
  expect(() => records.write(name, bytes("x"))).toThrow()
  expect(readdirSync(directory)).toEqual([name]) // without a draft
  for (const [act, words] of [
    [() => records.read(name), `Cannot read the backup "${directory}/${name}"`],
    [() => records.write(name, bytes("x")), `Cannot write the backup "${directory}/${name}"`],
    [() => records.remove(name), `Cannot remove the backup "${directory}/${name}"`],
    [() => new Records("/dev/null/x", "backup").requireWritable(), 'Cannot keep backups in "/dev/null/x"'],
  ] as const) {
    expect(act).toThrow(expect.objectContaining({ code: 5, message: words, cause: expect.any(Error) }))
  }
  const long = "n".repeat(256) // longer than NAME_MAX
  for (const [where, which] of [
    ["/dev/null/x", name],
    [directory, long],
  ] as const) {
    const nowhere = new Records(where, "backup")
    expect(nowhere.read(which)).toBeUndefined()
    expect(() => nowhere.remove(which)).not.toThrow()
  }
  expect(() => new Records(join(directory, "not/yet/there"), "backup").requireWritable()).not.toThrow()
  expect(readdirSync(directory)).toEqual([name])
  // A file with a name, even a temporary one, would change the directory's time, and a kill would leave it.
  const before = statSync(directory, { bigint: true }).mtimeNs
  new Records(directory, "backup").requireWritable()
  expect(statSync(directory, { bigint: true }).mtimeNs).toBe(before)
})

test("what others can change is neither believed nor changed, and that is asked once", () => {
  const open = join(directory, "open")
  mkdirSync(open)
  writeFileSync(join(open, name), "planted")
  const trusted = new Records(open, "backup")
  expect(trusted.list()).toEqual([name])
  chmodSync(open, 0o777)
  const message = `Cannot trust "${open}": all users may write to "${open}"`
  for (const act of [
    (records: Records) => records.read(name),
    (records: Records) => records.write(name, bytes("x")),
    (records: Records) => records.remove(name),
    (records: Records) => records.list(),
  ])
    expect(() => act(new Records(open, "backup"))).toThrow(expect.objectContaining({ code: 5, message }))
  expect(() => new Records(open, "backup").requireWritable()).toThrow(
    expect.objectContaining({ message: `Cannot keep backups in "${open}"`, details: expect.stringContaining(message) }),
  )
  expect(readdirSync(open)).toEqual([name])
  expect(trusted.read(name)).toEqual(bytes("planted"))
})

test("where there is no directory there are no records, with each kind of file in its place", () => {
  for (const place of [join(directory, "none"), "/dev/null/x"]) expect(new Records(place, "backup").list()).toEqual([])
  expect(() => new Records(join(directory, "n".repeat(256)), "backup").list()).toThrow("ENAMETOOLONG")
})
