import { expect, test } from "bun:test"
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { FileDescriptor, findAttribute, Open, setAttribute } from "../pkg/libc/mod.ts"
import { install } from "./install.ts"
import { Site } from "./testing.ts"
import { uninstall } from "./uninstall.ts"
import { verify } from "./verify.ts"

const did = (outcomes: ReturnType<typeof install>) => outcomes.map((one) => one.did)
const first = { bridge: "version 1, bridge", loopback: "version 1, loopback" }
const second = { bridge: "version 2, bridge", loopback: "version 2, loopback" }

test("each plugin is the executable of its name, a file of its own, executable for all", () => {
  using at = new Site()
  const before = process.umask(0o077)
  try {
    expect(did(install(at.suite("version 1")))).toEqual(["created", "created"])
  } finally {
    process.umask(before)
  }
  expect(at.files()).toEqual(first)
  for (const name of ["bridge", "loopback"]) {
    expect(statSync(join(at.directory, name))).toMatchObject({ nlink: 1, mode: 0o100755 })
  }
})

test("doing it again changes nothing", () => {
  using at = new Site()
  install(at.suite("version 1"))
  const [inode, kept] = [at.inode("bridge"), at.kept()]
  expect(did(install(at.suite("version 1")))).toEqual(["unchanged", "unchanged"])
  expect([at.inode("bridge"), at.kept()]).toEqual([inode, kept])
})

test("a name that is missing is added to what is there already", () => {
  using at = new Site()
  install(at.suite("version 1"))
  rmSync(join(at.directory, "loopback"))
  expect(did(install(at.suite("version 1")))).toEqual(["unchanged", "created"])
})

test("an upgrade replaces what was installed, and files of other names are not touched", () => {
  using at = new Site()
  at.foreign("calico", "theirs")
  install(at.suite("version 1"))
  expect(did(install(at.suite("version 2")))).toEqual(["replaced", "replaced"])
  expect(at.files()).toEqual({ ...second, calico: "theirs" })
})

test("the same files that were unpacked from an archive count as installed", () => {
  using at = new Site()
  const suite = at.suite("version 1")
  for (const name of suite.names) copyFileSync(suite.source(name), join(at.directory, name))
  expect(did(install(suite))).toEqual(["unchanged", "unchanged"])
  expect(did(at.back())).toEqual(["unchanged", "unchanged"])
  expect(did(install(at.suite("version 2")))).toEqual(["replaced", "replaced"])
})

test("what was copied over an installed file counts as what was there before", () => {
  using at = new Site()
  install(at.suite("version 1"))
  copyFileSync(at.suite("version 2").source("bridge"), join(at.directory, "bridge"))
  expect(did(install(at.suite("version 2")))).toEqual(["unchanged", "replaced"])
  expect(did(at.back())).toEqual(["unchanged", "restored"])
  expect(at.files()).toEqual({ ...first, bridge: "version 2, bridge" })
})

test("hard links, which one writer could spoil all at once, are taken apart", () => {
  using at = new Site()
  install(at.suite("version 1"))
  linkSync(join(at.directory, "bridge"), join(at.root, "link"))
  expect(did(install(at.suite("version 1")))).toEqual(["replaced", "unchanged"])
  expect(statSync(join(at.directory, "bridge")).nlink).toBe(1)
})

test("files that others placed are replaced with adopt only, and kept; a link stays a link", () => {
  using at = new Site()
  at.foreign("bridge", "theirs")
  at.foreign("calico", "theirs")
  symlinkSync("calico", join(at.directory, "loopback"))
  const theirs = at.files()
  expect(() => install(at.suite("version 1"))).toThrow(
    expect.objectContaining({
      code: 5,
      message: `Cannot install into "${at.directory}": "bridge", "loopback" were placed by other programs`,
      details: "--adopt replaces such files, and keeps them for --rollback and --uninstall",
    }),
  )
  expect(at.files()).toEqual(theirs)
  expect(did(install({ ...at.suite("version 1"), adopt: true }))).toEqual(["adopted", "adopted"])
  expect(at.files()).toEqual({ ...first, calico: "theirs" })
  install(at.suite("version 2"))
  expect(did(uninstall(at))).toEqual(["restored", "restored"])
  expect(at.files()).toEqual(theirs)
})

test("what others have put in place of an installed file is not replaced without adopt either", () => {
  using at = new Site()
  install(at.suite("version 1"))
  at.foreign("loopback", "theirs")
  expect(() => install(at.suite("version 2"))).toThrow('"loopback" was placed by other programs')
  expect(at.files()).toEqual({ ...first, loopback: "theirs" })
  expect(did(install({ ...at.suite("version 2"), adopt: true }))).toEqual(["replaced", "adopted"])
  expect(did(at.back())).toEqual(["restored", "restored"])
  expect(at.files()).toEqual({ ...first, loopback: "theirs" })
  expect(verify(at.directory)?.differences).toEqual([]) // loopback belongs to the other program
})

test("an upgrade works while the old plugin runs", async () => {
  using at = new Site()
  const suite = at.suite("version 1", ["bridge"])
  copyFileSync("/bin/sleep", suite.source("bridge"))
  install(suite)
  const running = Bun.spawn([join(at.directory, "bridge"), "60"])
  expect(did(install(at.suite("version 2", ["bridge"])))).toEqual(["replaced"])
  expect(at.files()).toEqual({ bridge: "version 2, bridge" })
  expect(running.exitCode).toBeNull()
  running.kill()
  await running.exited
})

test("a dry run tells and does nothing", () => {
  using at = new Site()
  expect(did(install({ ...at.suite("version 1"), dryRun: true }))).toEqual(["created", "created"])
  expect(at.files()).toEqual({})
  install(at.suite("version 1"))
  install(at.suite("version 2"))
  const kept = at.kept()
  expect(did(at.back({ dryRun: true }))).toEqual(["restored", "restored"])
  expect(did(uninstall({ directory: at.directory, dryRun: true }))).toEqual(["removed", "removed"])
  expect([at.files(), at.kept()]).toEqual([second, kept])
})

test("an upgrade keeps the SELinux label of what it replaces, and capability bits of our own files only", () => {
  using at = new Site()
  const [LABEL, BITS] = ["security.selinux", "security.capability"]
  const bits = Uint8Array.from([0, 0, 0, 2, 0, 0x10, ...Array(14).fill(0)]) // struct vfs_cap_data, revision 2: CAP_NET_ADMIN
  const label = new TextEncoder().encode("system_u:object_r:container_file_t:s0\0")
  const path = (name: string) => join(at.directory, name)
  const set = (name: string) => {
    using file = FileDescriptor.open(path(name), Open.ReadOnly)
    setAttribute(file.fd, LABEL, label)
    setAttribute(file.fd, BITS, bits)
  }
  install(at.suite("version 1", ["bridge"]))
  at.foreign("loopback", "theirs")
  for (const name of ["bridge", "loopback"]) set(name)
  expect(did(install({ ...at.suite("version 2"), adopt: true }))).toEqual(["replaced", "adopted"])
  const found = (name: string) => [LABEL, BITS].map((attribute) => findAttribute(path(name), attribute))
  expect(found("bridge")).toEqual([label, bits])
  expect(found("loopback")).toEqual([label, undefined])
  at.back()
  expect([found("bridge"), found("loopback")]).toEqual(Array(2).fill([label, bits]))
})

test("what cannot be installed into is refused before anything changes", () => {
  using at = new Site()
  const suite = at.suite("version 1")
  const missing = join(at.root, "missing")
  expect(() => install({ ...suite, directory: missing })).toThrow(
    expect.objectContaining({
      code: 5,
      message: `Cannot install into "${missing}": it does not exist`,
      details: expect.stringContaining(`create it first: mkdir -p ${missing}`),
    }),
  )
  expect(() => install({ ...suite, directory: suite.source("bridge") })).toThrow("it is not a directory")
  mkdirSync(join(at.directory, "loopback"))
  expect(() => install(suite)).toThrow('"loopback" in it is a directory')
  expect(() => install({ ...suite, source: () => join(at.root, "none") })).toThrow("Cannot install")
  rmSync(join(at.directory, "loopback"), { recursive: true })
  const introduce = () => {
    throw new Error("of no use")
  }
  expect(() => install({ ...suite, introduce })).toThrow()
  expect(Object.keys(at.files())).toEqual([])
  expect(() => at.kept()).toThrow("ENOENT")
})

test("a source that changes during the call is not installed, and a file that changes during it is not replaced", () => {
  using at = new Site()
  install(at.suite("version 1"))
  const suite = at.suite("version 2")
  const asked: string[] = []
  const source = (name: string) => {
    if (asked.includes(name)) writeFileSync(suite.source(name), "another")
    asked.push(name)
    return suite.source(name)
  }
  const changed = { code: 11, message: expect.stringContaining("it was changed during the call") }
  expect(() => install({ ...suite, source })).toThrow(expect.objectContaining(changed))
  expect(at.files()).toEqual(first)
  const introduce = () => void at.foreign("bridge", "theirs")
  expect(() => install({ ...at.suite("version 2"), introduce })).toThrow(expect.objectContaining(changed))
  expect(at.files()).toEqual({ ...first, bridge: "theirs" })
})

test("a rollback puts back what was there before, and a second one changes nothing", () => {
  using at = new Site()
  install(at.suite("version 1"))
  install(at.suite("version 2", ["bridge", "loopback", "vrf"]))
  expect(did(at.back())).toEqual(["restored", "restored", "removed"])
  expect(at.files()).toEqual(first)
  expect(did(at.back())).toEqual(["unchanged", "unchanged"])
  expect(at.files()).toEqual(first)
  expect(at.kept().filter((path) => path.includes("/"))).toEqual([])
  expect(did(install(at.suite("version 2")))).toEqual(["replaced", "replaced"])
})

test("the rollback of a first installation leaves the directory as it was", () => {
  using at = new Site()
  at.foreign("bridge", "theirs")
  install({ ...at.suite("version 1"), adopt: true })
  expect(at.kept()).toContain("displaced/bridge")
  expect(did(at.back())).toEqual(["restored", "removed"])
  expect(at.files()).toEqual({ bridge: "theirs" })
  expect(at.kept()).not.toContain("displaced/bridge")
})

test("a rollback leaves files that others have put in place since, without adopt", () => {
  using at = new Site()
  install(at.suite("version 1"))
  install(at.suite("version 2"))
  at.foreign("bridge", "theirs")
  expect(() => at.back()).toThrow('"bridge" was placed by other programs')
  expect(at.files()).toEqual({ ...second, bridge: "theirs" })
  expect(did(at.back({ adopt: true }))).toEqual(["adopted", "restored"])
  expect(at.files()).toEqual(first)
  expect(did(uninstall(at))).toEqual(["restored", "removed"])
  expect(at.files()).toEqual({ bridge: "theirs" })
})

test("a kept file that is damaged is not put back, and nothing else is", () => {
  using at = new Site()
  install(at.suite("version 1"))
  install(at.suite("version 2"))
  writeFileSync(join(at.directory, ".cni-install/before-2/loopback"), "cut off")
  expect(() => at.back()).toThrow(`Cannot restore "${at.directory}/loopback"`)
  expect(at.files()).toEqual(second)
})

test("an uninstallation leaves nothing of this suite, and what others have placed since", () => {
  using at = new Site()
  install(at.suite("version 1"))
  at.foreign("loopback", "theirs")
  expect(did(uninstall(at))).toEqual(["removed", "left"])
  expect(at.files()).toEqual({ loopback: "theirs" })
  expect(() => at.kept()).toThrow("ENOENT")
  expect(() => uninstall(at)).toThrow("it has no manifest")
})

test("an uninstallation leaves what others have placed since, also where an older file of theirs was displaced", () => {
  using at = new Site()
  at.foreign("bridge", "theirs, older")
  install({ ...at.suite("version 1"), adopt: true })
  at.foreign("bridge", "theirs, newer")
  expect(did(uninstall(at))).toEqual(["left", "removed"])
  expect(at.files()).toEqual({ bridge: "theirs, newer" })
})

test("what differs from the installation is told", () => {
  using at = new Site()
  expect(verify(at.directory)).toBeUndefined()
  const names = ["bridge", "dhcp", "loopback", "portmap", "vrf"]
  install({ ...at.suite("version 1", names), introduce: () => "cni-plugins v1" })
  for (const isQuick of [false, true]) expect(verify(at.directory, { isQuick })).toMatchObject({ differences: [] })
  const { from, files } = verify(at.directory)?.manifest ?? expect.unreachable()
  expect([from, files.bridge]).toEqual([
    at.suite("version 1").from,
    { content: expect.stringMatching(/^sha256:/), version: "cni-plugins v1" },
  ])
  const file = (name: string) => join(at.directory, name)
  writeFileSync(file("bridge"), "theirs, theirs!!!") // overwritten without changing its length
  rmSync(file("dhcp"))
  chmodSync(file("loopback"), 0o644)
  linkSync(file("portmap"), join(at.root, "link"))
  for (const isQuick of [false, true]) {
    expect(verify(at.directory, { isQuick })?.differences).toEqual([
      { name: "bridge", is: "replaced", content: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
      { name: "dhcp", is: "missing" },
      { name: "loopback", is: "not executable" },
      { name: "portmap", is: "shared" },
    ])
  }
})

const home = ".cni-install"
test.each([
  ["a newer version", { format: 2 }, "a newer version of this installer wrote it"],
  ["no format", {}, '"format" is missing'],
  ["no generation", { format: 1 }, '"generation" is missing'],
  [
    "a path for a name",
    { format: 1, generation: 1, installed: "", from: "", files: { "../x": { content: "" } } },
    '"files"',
  ],
  ["no content", { format: 1, generation: 1, installed: "", from: "", files: { x: {} } }, '"files"'],
  ["a list", [], "expected a JSON object"],
])("a manifest of %s is refused, and nothing changes", (_, manifest, reason) => {
  using at = new Site()
  install(at.suite("version 1"))
  const path = join(at.directory, home, "manifest.json")
  writeFileSync(path, JSON.stringify(manifest))
  const kept = at.kept()
  for (const act of [
    () => install(at.suite("version 2")),
    () => at.back(),
    () => uninstall(at),
    () => verify(at.directory),
  ])
    expect(act).toThrow(expect.objectContaining({ code: 5, message: expect.stringContaining(reason) }))
  expect([at.files(), at.kept(), readFileSync(path, "utf8")]).toEqual([first, kept, JSON.stringify(manifest)])
})

test("a manifest that is cut off is refused", () => {
  using at = new Site()
  install(at.suite("version 1"))
  const path = join(at.directory, home, "manifest.json")
  writeFileSync(path, readFileSync(path, "utf8").slice(0, 40))
  expect(() => install(at.suite("version 2"))).toThrow(`Cannot use the manifest "${path}": it is not JSON`)
})
