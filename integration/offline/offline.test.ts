import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, cp, mkdir, readdir, readFile, rm } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { makeArchive } from "../../scripts/dist.ts"
import { root as project, type Target, targets } from "../../scripts/engine.ts"
import { muslOf } from "../../scripts/musl.ts"
import { stageFiles } from "../../scripts/release/stage.ts"
import { builtPlugins, mustRun, programEnv, runProgram, TemporaryDirectory } from "../lab/mod.ts"

const age = 1_700_000_000
let directory: TemporaryDirectory
let vendored: string
const online = new Map<Target["name"], string>()

beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-offline", dirname(builtPlugins))
  vendored = directory.join("vendored")
  const fetch = [process.execPath, join(project, "scripts/vendor.ts"), vendored]
  await mustRun(fetch, { env: { ...programEnv, HOME: process.env.HOME ?? "/" }, timeoutMs: 3_000_000 })
  for (const target of Object.values(targets))
    online.set(target.name, await makeArchive(target, await stageFiles(target), directory.join("online"), age))
}, 3_600_000)
afterAll(() => directory[Symbol.asyncDispose]())

/** Creates a checkout of the project, without built or installed files. */
async function checkOut(name: string): Promise<string> {
  const copy = directory.join(name)
  await mkdir(copy)
  for (const entry of await readdir(project)) {
    if (!/^(dist|\.git|node_modules)$/.test(entry))
      await cp(join(project, entry), join(copy, entry), { recursive: true })
  }
  return copy
}

/** Runs `npm run archives` in a checkout, in a namespace without an interface, and with an empty build cache. */
async function buildAlone(copy: string, env: Readonly<Record<string, string>>, ...asked: string[]): Promise<void> {
  const steps = [
    `test -z "$(ip link show up)"`,
    `test -z "$(ip -4 route show table all)$(ip -6 route show table all)"`,
    `cd ${copy} && exec npm run --silent archives -- "$@"`,
  ]
  const places = { HOME: "/nonexistent", XDG_CACHE_HOME: join(copy, "cache"), SOURCE_DATE_EPOCH: String(age) }
  await mustRun(["unshare", "--net", "sh", "-ec", steps.join("\n"), "sh", ...asked], {
    env: { ...programEnv, ...places, ...env },
    timeoutMs: 3_000_000,
  })
}

const sha256 = async (file: string) => new Bun.CryptoHasher("sha256").update(await readFile(file)).digest("hex")

test("a checkout built without a network, from a vendored directory, gives the same archives and bills", async () => {
  const copy = await checkOut("alone")
  await buildAlone(copy, { CNI_VENDOR: vendored })
  for (const archive of online.values()) {
    for (const file of [archive, archive.replace(/tgz$/, "cdx.json")])
      expect([basename(file), await sha256(join(copy, "dist", basename(file)))]).toEqual([
        basename(file),
        await sha256(file),
      ])
  }
}, 3_600_000)

test("`sha256sum --check` knows each file of a vendored directory", async () => {
  const { stdout } = await mustRun(["sh", "-ec", `cd ${vendored}\nsha256sum --check --strict SHA256SUMS`])
  const files = (await mustRun(["find", vendored, "-type", "f", "-printf", "%P\\n"])).stdout.trim().split("\n")
  const checked = stdout
    .trim()
    .split("\n")
    .map((line) => line.replace(/: OK$/, ""))
  expect(checked.sort()).toEqual(files.filter((file) => file !== "SHA256SUMS").sort())
})

test("a packager's compiler that links with another C library is refused", async () => {
  const ask = `await (await import("${join(project, "scripts/musl.ts")}")).muslOf({ name: "amd64", emulator: [] })`
  const { exitCode, stderr } = await runProgram([process.execPath, "-e", ask], {
    env: { ...programEnv, CNI_CC_AMD64: "gcc" },
  })
  expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/Cannot build with "gcc": ".*libc\.a" is not musl/)])
})

/** Creates a program with another name that runs a compiler. */
async function wrap(name: string, compiler: string): Promise<string> {
  const path = directory.join(name)
  await Bun.write(path, `#!/bin/sh\nexec ${compiler} "$@"\n`)
  await chmod(path, 0o755)
  return path
}

test("a packager's own engine, compiler, C library's terms, Bun and npm packages are built with, without a network", async () => {
  const copy = await checkOut("packager")
  const { compiler, terms } = await muslOf(targets.amd64)
  const [engine, bun] = [directory.join("engine"), directory.join("bun")]
  await mkdir(engine)
  const [source = ""] = await readdir(join(vendored, "engine"))
  const only = ["--strip-components=2", "--wildcards", "*/upstream-quickjs"]
  await mustRun(["tar", "-C", engine, "-xzf", join(vendored, "engine", source), ...only])
  await cp(process.execPath, bun)
  await chmod(bun, 0o755)
  await mustRun(["cp", "--recursive", "--link", join(project, "node_modules"), copy])
  for (const name of [".bin/bun", ".package-lock.json", "bun", "@oven"])
    await rm(join(copy, "node_modules", name), { recursive: true })
  const own = {
    CNI_ENGINE_SOURCE: engine,
    CNI_CC_AMD64: await wrap("their-cc", compiler),
    CNI_MUSL_TERMS: terms,
    CNI_BUN: bun,
  }
  await buildAlone(copy, own, "amd64")
  const archive = online.get("amd64") ?? ""
  const built = join(copy, "dist", basename(archive))
  expect(await sha256(built)).toBe(await sha256(archive))
  const { metadata, components } = JSON.parse(await readFile(built.replace(/tgz$/, "cdx.json"), "utf8"))
  expect(metadata.tools.components).toMatchObject([{ name: "their-cc" }])
  const listed = components.map((one: { name: string; version: string }) => `${one.name} ${one.version}`)
  expect(listed).toContainEqual(expect.stringMatching(/^musl \d+\.\d+\.\d+$/))
  expect(listed).toContainEqual(expect.stringMatching(/^quickjs-ng \d+\.\d+\.\d+$/))
}, 3_600_000)
