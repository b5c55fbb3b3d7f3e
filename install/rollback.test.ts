import { afterEach, expect, setSystemTime, test } from "bun:test"
import { chmodSync, rmSync } from "node:fs"
import { install } from "./install.ts"
import { rollback } from "./rollback.ts"
import { InstallerRun } from "./run.ts"
import { Site } from "./testing.ts"
import { uninstall } from "./uninstall.ts"
import { verify } from "./verify.ts"

afterEach(() => void setSystemTime())

const both = (at: Site) => [at.directory, at.other]

test("a rollback takes back one installation in both of its directories", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 2")
  const back = rollback(both(at))
  expect(back.map(({ directory }) => directory)).toEqual([at.other, at.directory]) // undoes the last installation first
  expect(at.both()).toEqual(["version 1", "version 1"])
  rollback(both(at))
  expect(at.both()).toEqual(["version 1", "version 1"])
})

test("also in a directory that is not named", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 2")
  rollback([at.directory])
  expect(at.both()).toEqual(["version 1", "version 1"])
})

test("a directory that the last installation did not change stays as it is, however often it is taken back", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 1")
  for (let times = 1; times <= 3; times++) {
    rollback(both(at))
    expect([times, ...at.both()]).toEqual([times, "version 1", "version 1"])
  }
})

test("a directory that an installation found as it should be is taken back with the next one only", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 1")
  at.installBoth("version 2", "version 3")
  rollback(both(at))
  expect(at.both()).toEqual(["version 2", "version 1"])
})

test("a rollback takes back one installation, and not another directory's earlier one", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 1", "version 2")
  install(at.suite("version 3"))
  for (let times = 1; times <= 3; times++) {
    rollback(both(at))
    expect([times, ...at.both()]).toEqual([times, "version 1", "version 2"])
  }
  for (const directory of both(at)) expect(verify(directory)).toMatchObject({ differences: [] })
})

test("what was taken back in one directory is not taken back further when another is named, too", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  install(at.suite("version 2"))
  rollback([at.directory])
  rollback(both(at))
  expect(at.both()).toEqual(["version 1", "version 1"])
})

test("the last installation is the last one also where the clock was set back before it", () => {
  using at = new Site()
  setSystemTime(new Date("2031-01-01"))
  at.installBoth("version 1", "version 1")
  setSystemTime(new Date("2024-01-01"))
  install({ ...at.suite("version 2"), run: new InstallerRun(both(at)) })
  rollback(both(at))
  expect(at.both()).toEqual(["version 1", "version 1"])
})

test("what one directory refuses is told before another is changed", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 2")
  at.foreign("bridge", "theirs")
  expect(() => rollback(both(at))).toThrow('"bridge" was placed by other programs')
  expect(at.files(at.other)).toEqual({ cni: "version 2, cni" })
  rollback(both(at), { adopt: true })
  expect(at.both()).toEqual(["version 1", "version 1"])
})

test("directories that are gone, or that nothing was installed into, are passed over", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  rmSync(at.other, { recursive: true })
  rollback([at.directory, at.root])
  expect(at.files()).toEqual({})
  expect(() => rollback([at.root])).toThrow(`Cannot find the installation in "${at.root}": it has no manifest`)
})

test("what a manifest says that another user may have written is not followed into other directories", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 2")
  chmodSync(`${at.directory}/.cni-install`, 0o777)
  expect(() => rollback([at.directory])).toThrow('another user owns or can change ".cni-install"')
  expect(() => uninstall(at)).toThrow('another user owns or can change ".cni-install"')
  expect(at.both()).toEqual(["version 2", "version 2"])
})

test("a dry run tells of all directories, and does nothing", () => {
  using at = new Site()
  at.installBoth("version 1", "version 1")
  at.installBoth("version 2", "version 2")
  const planned = rollback([at.directory], { dryRun: true })
  expect(planned.flatMap(({ outcomes }) => outcomes.map(({ name, did }) => `${name} ${did}`))).toEqual([
    "cni restored",
    "bridge restored",
    "loopback restored",
  ])
  expect(at.both()).toEqual(["version 2", "version 2"])
})
