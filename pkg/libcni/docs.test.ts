import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as libcni from "./mod.ts"
import { Lab } from "./testing/lab.ts"

const root = join(import.meta.dir, "../..")
const page = await Bun.file(join(root, "pkg/libcni/README.md")).text()

const result = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "veth7" }, { name: "eth0", sandbox: "/run/netns/c1" }],
  ips: [{ address: "10.22.0.2/16", gateway: "10.22.0.1", interface: 1 }],
}

/** Returns the host that the page assumes: two plugins, their network, and a broken file beside it. */
function hostOfThePage(): Lab {
  const lab = new Lab()
  const VERSION = { stdout: '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}' }
  for (const plugin of ["bridge", "portmap"]) lab.plugin(plugin, { VERSION, ADD: { stdout: JSON.stringify(result) } })
  const plugins = [{ type: "bridge" }, { type: "portmap", capabilities: { portMappings: true } }]
  lab.conf("10-lab.conflist", { cniVersion: "1.1.0", name: "lab", plugins })
  lab.conf("00-broken.conflist", "{")
  return lab
}

/** Returns the examples as a module. Arrows become expectations; imports and directories those of this repository. */
function moduleOf(lab: Lab): string {
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code)
  const examples = blocks
    .join("\n")
    .replace(/^(.+) \/\/ → (.+)$/gm, "expect($1 as unknown).toEqual($2)")
    .replaceAll('from "libcni"', `from "${root}/pkg/npm/libcni.ts"`)
    .replaceAll("/etc/cni/net.d", lab.confDir)
    .replaceAll("/opt/cni/bin", lab.binDir)
    .replaceAll("/var/lib/cni", lab.cacheDir)
  return `import { expect } from "bun:test"\n${examples}`
}

/** Writes the examples to a directory among the packages, so that their types are found. */
function writeExamples(lab: Lab) {
  const directory = mkdtempSync(join(root, "node_modules/.examples-"))
  const file = join(directory, "examples.ts")
  writeFileSync(file, moduleOf(lab))
  writeFileSync(
    join(directory, "tsconfig.json"),
    JSON.stringify({
      extends: join(root, "tsconfig.json"),
      compilerOptions: { noUnusedLocals: false },
      files: [file],
      include: [],
    }),
  )
  return { file, directory, [Symbol.dispose]: () => rmSync(directory, { recursive: true }) }
}

test("the examples of pkg/libcni/README.md do what they say", async () => {
  using lab = hostOfThePage()
  using examples = writeExamples(lab)
  await import(examples.file)
  expect(lab.sequence.filter((call) => call.startsWith("ADD"))).toHaveLength(4)
  expect(lab.sequence.slice(-4)).toEqual(["DEL portmap", "DEL bridge", "GC bridge", "GC portmap"])
})

test("the examples have the types of the library", () => {
  using lab = hostOfThePage()
  using examples = writeExamples(lab)
  const tsc = Bun.spawnSync([join(root, "node_modules/.bin/tsc"), "-p", examples.directory], { cwd: root })
  expect(tsc.stdout.toString()).toBe("")
})

test("the page has every function of the library, with an example", () => {
  const code = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block).slice(1)
  const prose = page.replace(/^```ts\n.*?^```$/gms, "")
  for (const name of Object.keys(libcni)) {
    expect({ name, explained: prose.includes(`\`${name}`) }).toEqual({ name, explained: true })
    expect({ name, shown: code.some((block) => block?.includes(name)) }).toEqual({ name, shown: true })
  }
})
