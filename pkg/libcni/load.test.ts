import { expect, test } from "bun:test"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { loadNetwork, networkNames } from "./load.ts"
import { Lab } from "./testing/lab.ts"

const list = (name: string, ...types: string[]) => ({
  cniVersion: "1.1.0",
  name,
  plugins: types.map((type) => ({ type })),
})
const types = (lab: Lab, name: string) => loadNetwork(lab.confDir, name).plugins.map((plugin) => plugin.type)

test("#162 the list with the wanted name is found, its plugins in the order of the file", () => {
  using lab = new Lab()
  lab.conf("10-a.conflist", list("a", "x"))
  lab.conf("20-b.conflist", list("b", "one", "two", "three"))
  expect(types(lab, "b")).toEqual(["one", "two", "three"])
})

test("#163 of two files with one name, the one that sorts first as text is taken", () => {
  using lab = new Lab()
  lab.conf("9-net.conflist", list("net", "nine"))
  lab.conf("10-net.conflist", list("net", "ten"))
  expect(types(lab, "net")).toEqual(["ten"])
})

test("#164 a .conflist is preferred to a .conf of the same name", () => {
  using lab = new Lab()
  lab.conf("00-net.conf", { name: "net", type: "single" })
  lab.conf("99-net.conflist", list("net", "listed"))
  expect(types(lab, "net")).toEqual(["listed"])
})

test("#165 a .conf or .json alone becomes a list of one plugin", () => {
  using lab = new Lab()
  lab.conf("a.conf", { name: "a", cniVersion: "0.4.0", type: "one", disableCheck: true })
  lab.conf("b.json", { name: "b", type: "two" })
  const a = loadNetwork(lab.confDir, "a")
  expect([a.cniVersion, a.disableCheck, a.plugins[0]?.type]).toEqual(["0.4.0", false, "one"])
  expect(JSON.parse(new TextDecoder().decode(a.bytes))).toEqual({
    name: "a",
    cniVersion: "0.4.0",
    plugins: [{ name: "a", cniVersion: "0.4.0", type: "one", disableCheck: true }],
  })
  expect(loadNetwork(lab.confDir, "b").cniVersion).toBe("")
})

test("#166 no directory, or no file in it: no net configurations found", () => {
  using lab = new Lab()
  expect(() => loadNetwork(lab.confDir, "net")).toThrow(`no net configurations found in ${lab.confDir}`)
  expect(() => loadNetwork("/does/not/exist", "net")).toThrow("no net configurations found in /does/not/exist")
})

test("#167 files but none of that name: the error names the networks that are there", () => {
  using lab = new Lab()
  lab.conf("a.conflist", list("a", "x"))
  lab.conf("b.conf", { name: "b", type: "x" })
  const load = () => loadNetwork(lab.confDir, "net")
  expect(load).toThrow(`no net configuration with name "net" in ${lab.confDir}`)
  expect(load).toThrow(expect.objectContaining({ code: 7, details: "networks there: a, b" }))
})

test("#168 a malformed file before the match is a warning, not an error as upstream; without a match it is part of one", () => {
  using lab = new Lab()
  lab.conf("00-broken.conflist", "{")
  lab.conf("10-net.conflist", list("net", "x"))
  expect(loadNetwork(lab.confDir, "net").warnings).toEqual([
    expect.stringMatching(/^Skipped 00-broken\.conflist: Cannot/),
  ])
  expect(() => loadNetwork(lab.confDir, "other")).toThrow(
    expect.objectContaining({ details: expect.stringMatching(/cannot use 00-broken\.conflist: .*line 1, column 2/) }),
  )
})

test("#169 files in sub-directories are not found", () => {
  using lab = new Lab()
  lab.conf("sub/net.conflist", list("net", "x"))
  mkdirSync(join(lab.confDir, "directory.conflist"))
  expect(() => loadNetwork(lab.confDir, "net")).toThrow("no net configurations found")
})

test("#174 with loadOnlyInlinedPlugins the directory of plugins is ignored", () => {
  using lab = new Lab()
  lab.conf("net.conflist", { ...list("net", "inlined"), loadOnlyInlinedPlugins: true })
  lab.conf("net/10-more.conf", { type: "more" })
  expect(types(lab, "net")).toEqual(["inlined"])
})

test("#175 loadOnlyInlinedPlugins without plugins is an error", () => {
  using lab = new Lab()
  lab.conf("net.conflist", { name: "net", loadOnlyInlinedPlugins: true })
  lab.conf("net/10-more.conf", { type: "more" })
  expect(() => loadNetwork(lab.confDir, "net")).toThrow(
    expect.objectContaining({
      details:
        "cannot use net.conflist: Cannot use network \"net\": 'loadOnlyInlinedPlugins' is true and there are no 'plugins'; no usable network there",
    }),
  )
})

test("#176 a list without plugins takes them from its directory", () => {
  using lab = new Lab()
  lab.conf("net.conflist", { name: "net" })
  lab.conf("net/10-more.conf", { type: "more" })
  expect(types(lab, "net")).toEqual(["more"])
})

test("#177 neither plugins nor a directory: no plugin configs found", () => {
  using lab = new Lab()
  lab.conf("net.conflist", { name: "net" })
  expect(() => loadNetwork(lab.confDir, "net")).toThrow(
    expect.objectContaining({
      details: 'cannot use net.conflist: Cannot use network "net": no plugin configs found; no usable network there',
    }),
  )
})

test("#178 plugins and an empty directory, or none, are fine", () => {
  using lab = new Lab()
  lab.conf("net.conflist", list("net", "x"))
  expect(types(lab, "net")).toEqual(["x"])
  mkdirSync(join(lab.confDir, "net"))
  expect(types(lab, "net")).toEqual(["x"])
})

test("#179 plugins of the directory follow the inlined ones, sorted by file name", () => {
  using lab = new Lab()
  lab.conf("net.conflist", list("net", "x"))
  lab.conf("net/20-b.conf", { type: "b" })
  lab.conf("net/10-a.conf", { type: "a" })
  expect(types(lab, "net")).toEqual(["x", "a", "b"])
})

test("#180 other files in the directory of plugins are ignored, broken .conf files are not", () => {
  using lab = new Lab()
  lab.conf("net.conflist", list("net", "x"))
  lab.conf("net/README.md", "not JSON")
  lab.conf("net/10-a.json", { type: "a" })
  expect(types(lab, "net")).toEqual(["x"])
  lab.conf("net/20-b.conf", {})
  expect(() => loadNetwork(lab.confDir, "net")).toThrow(
    expect.objectContaining({ details: expect.stringMatching(/20-b\.conf".*missing 'type'/) }),
  )
})

test("the names of all usable networks are listed once each", () => {
  using lab = new Lab()
  lab.conf("20-b.conflist", list("b", "x"))
  lab.conf("10-b.conf", { name: "b", type: "x" })
  lab.conf("30-a.json", { name: "a", type: "x" })
  lab.conf("40-broken.conflist", "{")
  expect(networkNames(lab.confDir)).toEqual(["a", "b"])
  expect(networkNames("/does/not/exist")).toEqual([])
})

test("a network name that would lead out of the directory is refused when the file is read", () => {
  using lab = new Lab()
  lab.conf("net.conflist", list("../net", "x"))
  expect(() => loadNetwork(lab.confDir, "../net")).toThrow(
    expect.objectContaining({ details: expect.stringContaining("invalid characters found in network name") }),
  )
})
