import { afterEach, beforeEach, expect, test } from "bun:test"
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

test("a backup has upstream's name, can be read by root alone, and leaves no draft", () => {
  const below = join(directory, "a/b")
  const file = new BackupFile(below, owner)
  expect(file.read()).toBeUndefined()
  file.write(text("{}"))
  expect(file.read()).toEqual(text("{}"))
  expect(readdirSync(below)).toEqual(["c1_eth0.json"])
  expect(statSync(join(below, "c1_eth0.json")).mode & 0o777).toBe(0o600)
  expect(statSync(below).mode & 0o777).toBe(0o700)
})

test("a draft that a killed ADD left is in nobody's way, and goes with the backup", () => {
  const file = new BackupFile(directory, owner)
  writeFileSync(join(directory, ".lab~c1_eth0.json"), "{")
  file.write(text("{}"))
  writeFileSync(join(directory, ".lab~c1_eth0.json"), "{")
  file.remove()
  expect(readdirSync(directory)).toEqual([])
  file.remove()
})

test("GC removes what the network's gone attachments left, and nothing else", () => {
  const write = (name: string, content: string) => writeFileSync(join(directory, name), content)
  write("gone_eth0.json", '{"mtu": 1500, "network": "lab"}')
  write("alive_eth0.json", '{"network": "lab"}')
  write("gone_eth1.json", '{"network": "other"}')
  write("upstream_eth0.json", '{"mtu": 1500}')
  write("torn_eth0.json", '{"net')
  write(".lab~gone_eth0.json", "{")
  write(".lab~alive_eth0.json", "{")
  write(".lab2~gone_eth0.json", "{")
  write("notes.txt", '{"network": "lab"}')
  removeStaleBackups(directory, "lab", [{ network: "lab", containerId: "alive", ifName: "eth0" }])
  expect(readdirSync(directory).sort()).toEqual([
    ".lab2~gone_eth0.json",
    ".lab~alive_eth0.json",
    "alive_eth0.json",
    "gone_eth1.json",
    "notes.txt",
    "torn_eth0.json",
    "upstream_eth0.json",
  ])
})

test("GC tells attachments apart whose names look alike when joined", () => {
  writeFileSync(join(directory, "a_b_c.json"), '{"network": "lab"}')
  removeStaleBackups(directory, "lab", [{ network: "lab", containerId: "a_b", ifName: "c" }])
  expect(readdirSync(directory)).toEqual(["a_b_c.json"])
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
  expect(() => new BackupFile(path, owner).write(text("{}"))).toThrow(`Cannot write the backup "${path}/c1_eth0.json"`)
  expect(() => requireDirectory(path)).toThrow(`Cannot keep backups in "${path}"`)
  expect(new BackupFile(path, owner).read()).toBeUndefined()
  new BackupFile(path, owner).remove()
  removeStaleBackups(path, "lab", [])
})

test("a draft that cannot take the name is an error, and the next DEL removes it", () => {
  mkdirSync(join(directory, "c1_eth0.json"))
  const file = new BackupFile(directory, owner)
  expect(() => file.write(text("{}"))).toThrow("Cannot write the backup")
})
