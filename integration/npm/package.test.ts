import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, HostNamespace } from "../lab/mod.ts"
import {
  Consumer,
  compilerPackages,
  compilers,
  type Engines,
  engineNames,
  installEngines,
  project,
} from "./consumer.ts"

let consumer: Consumer
let engines: Engines
beforeAll(async () => {
  engines = await installEngines()
  consumer = await Consumer.create(...compilerPackages)
})
afterAll(() => consumer?.[Symbol.asyncDispose]())

const installed = (name: string) => consumer.file(`node_modules/libcni/${name}`)

test("the package has two entries with types and source maps, no dependency, and less than 330 KB", async () => {
  const files = await readdir(installed(""))
  const sizes = await Promise.all(files.map(async (file) => (await stat(installed(file))).size))
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(330_000)
  for (const file of ["libcni.js", "libcni.js.map", "libcni.d.ts", "plugin.js", "plugin.js.map", "plugin.d.ts"])
    expect(files).toContain(file)
  expect(
    files.every((file) =>
      /^(LICENSE|README\.md|package\.json|(libcni|plugin|shared-\w+)\.(js|js\.map|d\.ts))$/.test(file),
    ),
  ).toBe(true)
  const { dependencies, engines: needed, exports, type } = JSON.parse(await readFile(installed("package.json"), "utf8"))
  expect(dependencies).toBeUndefined()
  expect({ type, node: needed.node, entries: Object.keys(exports) }).toMatchObject({
    type: "module",
    entries: [".", "./plugin", "./package.json"],
    node: expect.stringMatching(/^>=20/),
  })
  for (const file of files.filter((file) => file.endsWith(".js"))) {
    const code = await readFile(installed(file), "utf8")
    expect(code).not.toMatch(/bun:|\bBun\./)
    const { sources } = JSON.parse(await readFile(installed(`${file}.map`), "utf8"))
    for (const source of sources) expect(await Bun.file(join(project, source)).exists()).toBe(true)
  }
})

test.each(engineNames)("importing it does nothing and needs no root, on %s", async (engine) => {
  const program = `
    const [runtime, plugin] = [await import("libcni"), await import("libcni/plugin")]
    console.log(JSON.stringify([process.getuid(), runtime.CniError === plugin.CniError]))`
  await consumer.write("import.mjs", program)
  const stdout = await consumer.run(
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    engines[engine] ?? "",
    consumer.file("import.mjs"),
  )
  expect(JSON.parse(stdout)).toEqual([65534, true])
})

test.each(engineNames)("digits beyond those of a double reach a plugin unchanged, on %s", async (engine) => {
  await consumer.write(
    "digits.mjs",
    `import { parseNetworkList, statusNetwork } from "libcni"
     const list = '{"cniVersion": "1.1.0", "name": "lab", "plugins": [{"type": "x", "big": 12345678901234567890, "text": "1e400"}]}'
     const exec = { findPlugin: (type) => type, run: async ({ stdin }) => (console.log(stdin), { stdout: "", stderr: "" }) }
     await statusNetwork({ path: [], cacheDir: "/", env: {}, stderr() {}, exec }, parseNetworkList(list))`,
  )
  const stdout = await consumer.run(engines[engine] ?? "", "digits.mjs")
  expect(stdout).toBe('{"type":"x","big":12345678901234567890,"text":"1e400","name":"lab","cniVersion":"1.1.0"}\n')
})

/** Returns the first example on the page, with some texts replaced. */
async function firstExample(replaced: Readonly<Record<string, string>> = {}): Promise<string> {
  const page = await readFile(join(project, "pkg/libcni/README.md"), "utf8")
  let [, code = ""] = /^```ts first\.ts\n(.*?)^```$/ms.exec(page) ?? []
  for (const [old, other] of Object.entries(replaced)) code = code.replaceAll(old, other)
  return code
}

const tsconfig = {
  strict: true,
  module: "nodenext",
  exactOptionalPropertyTypes: true,
  target: "es2022",
  skipLibCheck: false,
}

async function compile(
  compiler: string,
  directory: string,
  files: readonly string[],
  more: object = {},
): Promise<void> {
  const outDir = consumer.file(`${directory}/out`)
  const compilerOptions = { ...tsconfig, outDir, rootDir: consumer.path, types: ["node"], ...more }
  const include = files.map((file) => consumer.file(file))
  const path = await consumer.write(`${directory}/tsconfig.json`, JSON.stringify({ compilerOptions, files: include }))
  await consumer.run("node", consumer.file(`node_modules/typescript-${compiler}/bin/tsc`), "-p", path)
}

test.each(Object.keys(compilers))("TypeScript %s compiles examples and every export, strictly", async (compiler) => {
  await consumer.write("first.ts", await firstExample())
  await consumer.copy("examples/runtime/runtime.ts", "runtime.ts")
  await consumer.copy("examples/multus/multus.ts", "multus.ts")
  await consumer.copy("integration/npm/typed.ts", "typed.ts")
  await compile(compiler, `compiled-${compiler}`, ["first.ts", "runtime.ts", "multus.ts", "typed.ts"])
})

test.each(engineNames)("the page's first example runs as root on %s", async (engine) => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const name = `first-${engine.replace(" ", "-")}`
  const program = await firstExample({ "/opt/cni/bin": builtPlugins, "/run/netns/c1": pod.path })
  await consumer.transpile(`${name}.mjs`, program)
  const { stdout, stderr } = await host.exec(engines[engine] ?? "", [consumer.file(`${name}.mjs`)])
  expect({ stdout, stderr }).toEqual({ stdout: "10.22.0.2/16\n", stderr: "" })
  expect(await host.json<unknown[]>("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
})
