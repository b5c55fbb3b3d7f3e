import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { install } from "../../install/mod.ts"
import { checkPlaced } from "./placed.ts"
import { inputOf, printed } from "./testing/inputs.ts"

function place() {
  const root = mkdtempSync(join(tmpdir(), "cni-placed-"))
  const directory = join(root, "bin")
  const from = join(root, "from")
  for (const each of [directory, from]) mkdirSync(each)
  const names = ["bridge", "portmap"]
  for (const name of names) writeFileSync(join(from, name), `#!/bin/sh\necho ours, ${name} >&2\n`)
  install({ directory, names, from, source: (name) => join(from, name) })
  const found = () =>
    printed(checkPlaced(inputOf({ places: { confDir: "", binDirs: [directory], cacheDir: "", dataDir: "" } })))
  return { directory, found, [Symbol.dispose]: () => rmSync(root, { recursive: true }) }
}

test("plugins that are as they were installed say nothing, nor does a directory that was filled otherwise", () => {
  using at = place()
  expect(at.found()).toEqual([])
  rmSync(join(at.directory, ".cni-install"), { recursive: true })
  expect(at.found()).toEqual([])
})

test("a plugin that another installer has replaced is told, with what it says of itself", () => {
  using at = place()
  writeFileSync(join(at.directory, "portmap"), "#!/bin/sh\necho CNI portmap plugin v1.1.1 >&2\n")
  expect(at.found()).toEqual([
    `warning plugin-replaced
plugin "portmap" in ${at.directory} was replaced since it was installed: it now reports "CNI portmap plugin v1.1.1"
another installer overwrote it: a plugin of another suite or version now attaches containers
cni install --bin-dir ${at.directory} --adopt`,
  ])
})

test("an installation that was interrupted is told", () => {
  using at = place()
  const home = join(at.directory, ".cni-install")
  const manifest = join(home, "manifest.json")
  mkdirSync(join(home, "ready"))
  writeFileSync(join(home, "ready/steps.json"), JSON.stringify({ format: 1, kind: "install", steps: [] }))
  renameSync(manifest, join(home, "ready/manifest.json"))
  expect(at.found()).toEqual([
    `warning install-interrupted
an installation into ${at.directory} was interrupted
plugins of two versions are mixed until the installation is finished
cni install --bin-dir ${at.directory}`,
  ])
})
