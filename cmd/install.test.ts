import { expect, test } from "bun:test"
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { install } from "./install.ts"

/** A directory to install into, with an executable beside it. */
function place() {
  const root = mkdtempSync(join(tmpdir(), "install-test-"))
  const directory = join(root, "bin")
  const source = join(root, "executable")
  mkdirSync(directory)
  writeFileSync(source, "version 1", { mode: 0o755 })
  return {
    root,
    directory,
    executable: source,
    source: (_name: string) => source,
    names: ["bridge", "loopback"],
    read: (name: string) => readFileSync(join(directory, name), "utf8"),
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  }
}

const did = (installed: ReturnType<typeof install>) => installed.map((one) => one.did)

test("each plugin is a file of its own, executable for all, and nothing else is left", () => {
  using at = place()
  expect(did(install(at))).toEqual(["created", "created"])
  expect(readdirSync(at.directory).sort()).toEqual(["bridge", "loopback"])
  const [bridge, loopback] = [statSync(join(at.directory, "bridge")), statSync(join(at.directory, "loopback"))]
  expect([bridge.nlink, loopback.nlink]).toEqual([1, 1])
  expect(bridge.mode & 0o777).toBe(0o755)
})

test("each plugin is the executable of its name", () => {
  using at = place()
  writeFileSync(join(at.root, "other"), "another way to start", { mode: 0o755 })
  const source = (name: string) => (name === "loopback" ? join(at.root, "other") : at.executable)
  expect(did(install({ ...at, source }))).toEqual(["created", "created"])
  expect([at.read("bridge"), at.read("loopback")]).toEqual(["version 1", "another way to start"])
  expect(did(install({ ...at, source }))).toEqual(["unchanged", "unchanged"])
})

test("doing it again changes nothing", () => {
  using at = place()
  install(at)
  const before = statSync(join(at.directory, "bridge"))
  expect(did(install(at))).toEqual(["unchanged", "unchanged"])
  expect(statSync(join(at.directory, "bridge")).ino).toBe(before.ino)
})

test("a name that is missing is added to what is there already", () => {
  using at = place()
  install(at)
  rmSync(join(at.directory, "loopback"))
  expect(did(install(at))).toEqual(["unchanged", "created"])
})

test("hard links, which one writer could spoil all at once, are taken apart", () => {
  using at = place()
  copyFileSync(at.executable, join(at.directory, "bridge"))
  linkSync(join(at.directory, "bridge"), join(at.directory, "loopback"))
  expect(did(install(at))).toEqual(["replaced", "replaced"])
  expect(statSync(join(at.directory, "bridge")).nlink).toBe(1)
})

test("another suite's plugins are replaced, links included; files of other names are not touched", () => {
  using at = place()
  writeFileSync(join(at.directory, "bridge"), "theirs")
  writeFileSync(join(at.directory, "calico"), "theirs")
  symlinkSync("calico", join(at.directory, "loopback"))
  expect(did(install(at))).toEqual(["replaced", "replaced"])
  expect([at.read("bridge"), at.read("loopback"), at.read("calico")]).toEqual(["version 1", "version 1", "theirs"])
})

test("an upgrade works while the old plugin runs", async () => {
  using at = place()
  copyFileSync("/bin/sleep", at.executable)
  install(at)
  const running = Bun.spawn([join(at.directory, "bridge"), "60"])
  writeFileSync(at.executable, "version 2")
  expect(did(install(at))).toEqual(["replaced", "replaced"])
  expect(at.read("bridge")).toBe("version 2")
  expect(running.exitCode).toBeNull()
  running.kill()
  await running.exited
})

test("a dry run tells and does nothing", () => {
  using at = place()
  expect(did(install({ ...at, dryRun: true }))).toEqual(["created", "created"])
  expect(readdirSync(at.directory)).toEqual([])
})

test("what cannot be installed into is refused before anything changes", () => {
  using at = place()
  expect(() => install({ ...at, directory: join(at.root, "missing") })).toThrow(
    "no such directory; make it first: mkdir -p",
  )
  expect(() => install({ ...at, directory: at.executable })).toThrow("not a directory")
  mkdirSync(join(at.directory, "loopback"))
  expect(() => install(at)).toThrow('"loopback" in it is a directory')
  expect(readdirSync(at.directory)).toEqual(["loopback"])
})

test("what a killed installation left is removed, what a running one is using is not", () => {
  using at = place()
  writeFileSync(join(at.directory, ".cni-install-999999999"), "half")
  writeFileSync(join(at.directory, ".cni-install-1"), "process 1 runs")
  install(at)
  expect(readdirSync(at.directory).sort()).toEqual([".cni-install-1", "bridge", "loopback"])
})
