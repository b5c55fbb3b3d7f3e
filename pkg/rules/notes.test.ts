import { afterEach, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { stat } from "../libc/mod.ts"
import type { Owner } from "../types/mod.ts"
import { type Container, RuleNotes } from "./notes.ts"

interface Spec {
  readonly owner: Owner
  readonly address: Uint8Array
}

const directories: string[] = []
afterEach(() => {
  for (const one of directories.splice(0)) rmSync(one, { recursive: true, force: true })
})

/** Notes in a directory of their own, and where they are. */
function create(): { root: string; notes: RuleNotes<Spec>; said: string[]; path: (id: string) => string } {
  const top = mkdtempSync(join(tmpdir(), "cni-notes-"))
  directories.push(top)
  const root = join(top, "rules")
  const own = `${root}/${statSync("/proc/self/ns/net").ino}/lab`
  return { root, notes: new RuleNotes<Spec>("lab", root), said: [], path: (id) => `${own}/net:${id}:eth0.json` }
}

const owner = (containerId: string): Owner => ({ network: "net", containerId, ifName: "eth0" })
const spec = (containerId: string, last = 2): Spec => ({
  owner: owner(containerId),
  address: Uint8Array.of(10, 1, 0, last),
})

/** A container that lives, at a path with this identity. */
function container(said: string[], netns = "/proc/self/ns/net"): Container {
  const { device, inode } = stat(netns)
  return { netns, namespace: { identity: `${device}:${inode}` }, log: (line) => void said.push(line) }
}

test("the notes of others come back as they were written, with bytes, in the order of their ADDs; the own one does not", () => {
  const { notes, said } = create()
  for (const id of ["c", "a", "b"])
    notes.write(container(said), { spec: spec(id), asked: id === "b" ? "iptables" : undefined })
  const read = notes.readOthers(owner("a"), (line) => void said.push(line))
  expect(read).toEqual([
    { spec: spec("c"), asked: undefined },
    { spec: spec("b"), asked: "iptables" },
  ])
  expect(read[0]?.spec.address).toBeInstanceOf(Uint8Array)
  expect(notes.readOthers(owner("a"), () => {}, { asked: "iptables" })).toEqual([
    { spec: spec("b"), asked: "iptables" },
  ])
  expect(notes.readOthers(owner("b"), () => {}, { asked: "iptables" })).toEqual([])
  expect(said).toEqual([])
})

test("what is torn, of another form, of another owner, or of a container that is gone is passed over", () => {
  const { notes, said, path } = create()
  const gone = { ...container(said), namespace: { identity: "1:1" } }
  for (const id of ["torn", "form", "other", "whole"])
    notes.write(container(said), { spec: spec(id), asked: undefined })
  notes.write(gone, { spec: spec("gone"), asked: undefined })
  truncateSync(path("torn"), 20)
  writeFileSync(path("form"), JSON.stringify({ ...JSON.parse(readFileSync(path("form"), "utf8")), form: 99 }))
  writeFileSync(path("other"), readFileSync(path("whole")))
  expect(notes.readOthers(owner("new"), () => {}).map(({ spec }) => spec.owner.containerId)).toEqual(["whole"])
})

test("the last note takes the directories along, and an earlier note is put back", () => {
  const { root, notes, said, path } = create()
  expect(notes.write(container(said), { spec: spec("a"), asked: undefined })).toBeUndefined()
  const former = notes.write(container(said), { spec: spec("a", 9), asked: undefined })
  expect(JSON.parse(new TextDecoder().decode(former)).spec.address).toEqual({ 0: 10, 1: 1, 2: 0, 3: 2 })
  notes.putBack(owner("a"), former)
  expect(notes.readOthers(owner("b"), () => {})).toEqual([{ spec: spec("a"), asked: undefined }])
  expect(notes.has(owner("a"))).toBe(true)
  notes.putBack(owner("a"), undefined)
  expect(existsSync(path("a"))).toBe(false)
  expect(existsSync(root)).toBe(false)
  expect(notes.remove(owner("a"))).toBe(false)
})

test("gc keeps the valid ones and those of other networks", () => {
  const { notes, said } = create()
  const other = { ...owner("x"), network: "other" }
  for (const id of ["a", "b"]) notes.write(container(said), { spec: spec(id), asked: undefined })
  notes.write(container(said), { spec: { ...spec("x"), owner: other }, asked: undefined })
  notes.gc("net", [owner("b")])
  expect([notes.has(owner("a")), notes.has(owner("b")), notes.has(other)]).toEqual([false, true, true])
})

test("a directory that others can change is not believed, and that is said", () => {
  const { notes, said, path } = create()
  notes.write(container(said), { spec: spec("a"), asked: undefined })
  chmodSync(join(path("a"), ".."), 0o777)
  expect(notes.readOthers(owner("b"), (line) => void said.push(line))).toEqual([])
  expect(said).toHaveLength(1)
  expect(said[0]).toContain("everybody may write to")
})

test("notes are for root alone, and one that cannot be written is told, and leaves nothing", () => {
  const { root, notes, said, path } = create()
  notes.write(container(said), { spec: spec("a"), asked: undefined })
  expect(statSync(join(path("a"), "..")).mode & 0o777).toBe(0o700)
  notes.remove(owner("a"))
  writeFileSync(root, "") // a file where the directory is to be
  expect(notes.write(container(said), { spec: spec("a"), asked: undefined })).toBeUndefined()
  expect(said.join()).toContain("Cannot note the rules in")
  expect(readdirSync(join(root, ".."))).toEqual(["rules"])
})
