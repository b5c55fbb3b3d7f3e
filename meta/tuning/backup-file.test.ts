import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BackupFile, removeStaleBackups, requireDirectory } from "./backup-file.ts"

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tuning-backup-"))
})
afterEach(() => rmSync(directory, { recursive: true }))

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value)
}

test("a backup has all three names of its attachment, can be read by root alone, and leaves no draft", () => {
  const below = join(directory, "a/b")
  const file = new BackupFile(below, owner)
  expect(file.read()).toBeUndefined()
  file.write(text("{}"))
  expect(file.read()).toEqual(text("{}"))
  expect(readdirSync(below)).toEqual(["lab:c1:eth0.json"])
  expect(statSync(join(below, "lab:c1:eth0.json")).mode & 0o777).toBe(0o600)
  expect(statSync(below).mode & 0o777).toBe(0o700)
})

test("a draft that a killed ADD left does no harm, and goes with the backup", () => {
  const file = new BackupFile(directory, owner)
  const draft = join(directory, ".lab:c1:eth0.json")
  writeFileSync(draft, "{")
  file.write(text("{}"))
  writeFileSync(draft, "{")
  file.remove()
  expect(readdirSync(directory)).toEqual([])
  file.remove()
})

test("#46 no two attachments have one backup, also when their joined names are equal", () => {
  const owners = ["lab", "lab-2"].flatMap((network) =>
    [
      ["a", "b_c"],
      ["a_b", "c"],
      ["a", "b-c"],
      ["a-b", "c"],
      ["a.json", "c"],
    ].map(([containerId = "", ifName = ""]) => ({ network, containerId, ifName })),
  )
  const files = owners.map((one) => new BackupFile(directory, one))
  for (const [at, file] of files.entries()) file.write(text(String(at)))
  expect(files.map((file) => file.read())).toEqual(owners.map((_, at) => text(String(at))))
  files[0]?.read()
  files[0]?.remove()
  expect(files.map((file) => file.read())).toEqual(owners.map((_, at) => (at === 0 ? undefined : text(String(at)))))
  removeStaleBackups(directory, "lab", [{ network: "lab", containerId: "a_b", ifName: "c" }])
  expect(readdirSync(directory).sort()).toEqual(
    ["lab:a_b:c.json", ...readdirSync(directory).filter((name) => name.startsWith("lab-2:"))].sort(),
  )
  expect(readdirSync(directory)).toHaveLength(6)
})

describe("a backup under upstream's name [S11]", () => {
  const writeAsUpstream = (content: string) => writeFileSync(join(directory, "c1_eth0.json"), content)

  test.each(['{"mtu": 1500}', '{"torn'])("%s is read, and removed", (content) => {
    writeAsUpstream(content)
    const file = new BackupFile(directory, owner)
    expect(file.read()).toEqual(text(content))
    file.remove()
    expect(readdirSync(directory)).toEqual([])
  })

  test("is looked at only where none exists under our own", () => {
    writeAsUpstream('{"mtu": 1500}')
    new BackupFile(directory, owner).write(text("{}"))
    const file = new BackupFile(directory, owner)
    expect(file.read()).toEqual(text("{}"))
    file.remove()
    expect(readdirSync(directory)).toEqual(["c1_eth0.json"])
  })

  test("goes when it is written again, and is there again when that is taken back", () => {
    writeAsUpstream('{"mtu": 1500}')
    const file = new BackupFile(directory, owner)
    const earlier = file.read()
    file.write(text("{}"))
    expect(readdirSync(directory)).toEqual(["lab:c1:eth0.json"])
    file.putBack(earlier)
    expect(readdirSync(directory)).toEqual(["c1_eth0.json"])
    expect(file.read()).toEqual(text('{"mtu": 1500}'))
  })
})

test("what is put back is what was there", () => {
  const file = new BackupFile(directory, owner)
  file.write(text("1"))
  file.putBack(undefined)
  expect(readdirSync(directory)).toEqual([])
  file.write(text("1"))
  const earlier = file.read()
  file.write(text("2"))
  file.putBack(earlier)
  expect(file.read()).toEqual(text("1"))
})

test("GC removes what the network's gone attachments left, and nothing else", () => {
  const write = (name: string, content: string) => writeFileSync(join(directory, name), content)
  write("lab:gone:eth0.json", '{"mtu": 1500}')
  write(".lab:gone:eth0.json", "{")
  write("lab:alive:eth0.json", "{}")
  write("lab:alive:eth1.json", "{}")
  write("lab2:gone:eth0.json", "{}")
  write(".lab2:gone:eth0.json", "{")
  write("upstream_eth0.json", '{"mtu": 1500}')
  write("notes.txt", "lab")
  removeStaleBackups(directory, "lab", [{ network: "lab", containerId: "alive", ifName: "eth0" }])
  expect(readdirSync(directory).sort()).toEqual([
    ".lab2:gone:eth0.json",
    "lab2:gone:eth0.json",
    "lab:alive:eth0.json",
    "notes.txt",
    "upstream_eth0.json",
  ])
})

test("without a directory there is nothing to read, to remove, or to collect", () => {
  const none = join(directory, "none")
  new BackupFile(none, owner).remove()
  removeStaleBackups(none, "lab", [])
  expect(() => requireDirectory(none)).not.toThrow()
})

test("a directory that is a file is an error of ADD and STATUS, and no obstacle to the others", () => {
  const path = join(directory, "file")
  writeFileSync(path, "")
  expect(() => new BackupFile(path, owner).write(text("{}"))).toThrow(
    `Cannot write the backup "${path}/lab:c1:eth0.json"`,
  )
  expect(() => requireDirectory(path)).toThrow(`Cannot keep backups in "${path}"`)
  expect(new BackupFile(path, owner).read()).toBeUndefined()
  new BackupFile(path, owner).remove()
  removeStaleBackups(path, "lab", [])
})

test("a draft that cannot take the name is an error, and the next DEL removes it", () => {
  mkdirSync(join(directory, "lab:c1:eth0.json"))
  const file = new BackupFile(directory, owner)
  expect(() => file.write(text("{}"))).toThrow("Cannot write the backup")
})
