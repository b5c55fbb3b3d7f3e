import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inspectPlugin } from "./binaries.ts"
import { checkPlugins, neededPlugins } from "./plugins.ts"
import { inputOf, memberOf, printed } from "./testing/inputs.ts"

let bin = ""
beforeAll(() => {
  bin = mkdtempSync(join(tmpdir(), "cni-plugins-"))
})
beforeEach(() => {
  rmSync(bin, { recursive: true })
  for (const directory of [bin, join(bin, "other")]) mkdirSync(directory)
})
afterAll(() => rmSync(bin, { recursive: true }))

const VERSION = "cni-plugins v0.1.0-rc.1+x"
/** Creates a plugin that prints a text to stderr. */
function plugin(name: string, says = `CNI ${name} plugin v1.9.1\n${VERSION}`, mode = 0o755): string {
  const file = join(bin, name)
  writeFileSync(file, `#!/bin/sh\ncat >&2 <<'END'\n${says}\nEND\n`)
  chmodSync(file, mode)
  return file
}
const places = (directories = [bin]) => ({ confDir: "", binDirs: directories, cacheDir: "", dataDir: "" })
const found = (types: readonly string[], directories?: string[]) =>
  printed(checkPlugins(inputOf({ places: places(directories), members: types.map((type) => memberOf({ type })) })))

test("the plugins that networks need, IPAM plugins included, each with its networks", () => {
  const members = [
    memberOf({ type: "bridge", ipam: { type: "host-local" } }),
    memberOf({ type: "bridge", ipam: { type: "" } }, "lan"),
    memberOf({ type: "bridge", ipam: { type: 5 } }, "lan"),
    memberOf({ type: "ptp", ipam: "dhcp" }, "lan"),
  ]
  expect([...neededPlugins(inputOf({ members }))]).toEqual([
    ["bridge", ["pods", "lan"]],
    ["host-local", ["pods"]],
    ["ptp", ["lan"]],
  ])
})

test("a plugin is the first file of its name in the directories, with the version that it says", () => {
  mkdirSync(join(bin, "bridge"))
  plugin("other/bridge")
  const directories = [join(bin, "none"), bin, join(bin, "other")]
  const file = join(bin, "other/bridge")
  expect(inspectPlugin("bridge", directories)).toEqual({
    type: "bridge",
    file,
    mode: 0o755,
    owner: 0,
    isPlugin: false,
    version: VERSION,
  })
  plugin("ptp", "CNI ptp plugin v1.1.1")
  expect(inspectPlugin("ptp", [bin])?.version).toBe("CNI ptp plugin v1.1.1")
  plugin("old", "CNI old plugin 0.8.6")
  expect(inspectPlugin("old", [bin])?.version).toBe("CNI old plugin 0.8.6")
  for (const says of ["error: no command", "my cni-plugins v1", "CNI x plugin v1 (and more)"]) {
    plugin("odd", says)
    expect(inspectPlugin("odd", [bin])).not.toHaveProperty("version")
  }
  expect(inspectPlugin("gone", [bin])).toBeUndefined()
})

test("plugins that are right say nothing", () => {
  plugin("bridge")
  plugin("portmap")
  expect(found(["bridge", "portmap"])).toEqual([])
})

test("a plugin that does not exist", () => {
  const members = [memberOf({ type: "bridge" }), memberOf({ type: "bridge" }, "lan")]
  expect(printed(checkPlugins(inputOf({ places: places([bin, "/opt/none"]), members })))).toEqual([
    `error plugin-missing
plugin "bridge" is not in ${bin}, /opt/none
no container can be attached to "pods", "lan"
cni install --bin-dir ${bin}`,
  ])
})

test("a plugin that is not executable", () => {
  const file = plugin("bridge", VERSION, 0o644)
  expect(found(["bridge"])).toEqual([
    `error plugin-not-executable (pods)
"${file}" (mode 644) is not executable
no container can be attached to "pods"
chmod 755 ${file}`,
  ])
})

test("a plugin that says no version", () => {
  const file = plugin("bridge", "Segmentation fault")
  expect(found(["bridge"])).toEqual([
    `warning plugin-broken (pods)
"${file}" (mode 755) does not report its version, as plugins do when they run without CNI_COMMAND
it may be damaged, or built for another machine
cni install --bin-dir ${bin} --adopt`,
  ])
  writeFileSync(file, "\x7fELF")
  expect(found(["bridge"])).toEqual([
    `error plugin-not-runnable (pods)
"${file}" (mode 755) cannot be started: ENOEXEC
no container can be attached to "pods"
cni install --bin-dir ${bin} --adopt`,
  ])
})

test("a plugin that users other than root can change", () => {
  const file = plugin("bridge", VERSION, 0o775)
  const writable = (user: number, mode: string) => `warning plugin-writable (pods)
"${file}" (mode ${mode}) of user ${user} can be changed by users other than root
it runs as root for every container
chown root:root ${file}; chmod go-w ${file}`
  expect(found(["bridge"])).toEqual([writable(0, "775")])
  chmodSync(file, 0o757)
  expect(found(["bridge"])).toEqual([writable(0, "757")])
  if (process.getuid?.() !== 0) return
  chmodSync(file, 0o755)
  chownSync(file, 1000, 0)
  expect(found(["bridge"])).toEqual([writable(1000, "755")])
})

test("an installation that would fail when pasted is not offered", () => {
  const input = { places: places(), members: [memberOf({ type: "bridge" })], canInstall: () => false }
  const [finding] = checkPlugins(inputOf(input))
  expect(finding).toMatchObject({ rule: "plugin-missing", remedy: expect.stringContaining("archive or package") })
})

test("plugins of several suites, or versions of one", () => {
  plugin("bridge")
  plugin("tuning")
  plugin("portmap", "CNI portmap plugin v1.1.1")
  expect(found(["bridge", "portmap", "tuning"])).toEqual([
    `warning plugins-mixed
plugins of several suites or versions are mixed (bridge, tuning: ${VERSION}; portmap: reference plugins v1.1.1): "bridge", "tuning", "portmap"
they work, but were not tested together; an interrupted upgrade may have left them
cni install --bin-dir ${bin} --adopt`,
  ])
})

test("Multus, which names versions of the specification and none of its own, is not a reference plugin", () => {
  plugin("bridge")
  const says = "meta-plugin that delegates to other CNI plugins\nCNI protocol versions supported: 0.1.0, 1.0.0, 1.1.0"
  plugin("multus", says)
  expect(found(["multus", "bridge"])).toEqual([])
  plugin("bridge", says) // the name of a plugin of this suite
  expect(found(["bridge"])[0]).toStartWith("warning plugin-broken")
})

test("several plugins with one fault are one finding, and one of another suite is not installed by this tool", () => {
  const files = ["bridge", "portmap"].map((name) => plugin(name, VERSION, 0o644))
  expect(found(["bridge", "portmap"])).toEqual([
    `error plugin-not-executable (pods)
2 plugins in "${bin}" are not executable: "bridge", "portmap"
no container can be attached to "pods"
chmod 755 ${files.join(" ")}`,
  ])
  const [missing, ...more] = found(["tuning", "ptp", "calico"])
  expect(missing).toContain(`2 plugins are not in ${bin}: "tuning", "ptp"\n`)
  expect(more[0]).toEndWith(`\ninstall the plugin "calico", which is not part of this suite, into ${bin}`)
  expect(more).toHaveLength(1)
  expect(found(["ptp"], [join(bin, "none")])[0]).toEndWith(`\nmkdir -p ${bin}/none; cni install --bin-dir ${bin}/none`)
})
