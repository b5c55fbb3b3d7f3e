import { expect, test } from "bun:test"
import { join } from "node:path"
import { pinnedMusl } from "../sources.ts"

const root = join(import.meta.dir, "../..")
const read = (file: string) => Bun.file(join(root, file)).text()
const { dependencies, devDependencies } = JSON.parse(await read("package.json"))
const { packages } = JSON.parse(await read("package-lock.json"))
const engine = await read("host/engine.txt")

test("every package of npm is pinned by its hash, and the direct ones by an exact version [S119]", () => {
  const locked = Object.entries<{ version?: string; integrity?: string }>(packages).filter(([path]) => path !== "")
  expect(locked.length).toBeGreaterThan(100)
  expect(locked.filter(([, { version, integrity }]) => !version || !integrity?.startsWith("sha512-"))).toEqual([])
  const direct = Object.values<string>({ ...dependencies, ...devDependencies })
  expect(direct.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([])
})

test("the engine is pinned by its hash [S120]", () => {
  expect(engine).toMatch(/^quickjs-ng==\d+(\.\d+)+ --hash=sha256:[0-9a-f]{64}\n$/)
})

test("musl for arm64 is pinned by its hash [S121]", () => {
  expect(pinnedMusl()).toMatchObject({
    version: expect.stringMatching(/^\d/),
    sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

test("the page on security names the versions that are pinned [S122]", async () => {
  const page = await read("docs/security.md")
  const [, release] = /==(\d+\.\d+\.\d+)/.exec(engine) ?? []
  const named = ["@noble/hashes", "bun", "execa", "proper-lockfile"].map(
    (name) => ({ ...dependencies, ...devDependencies })[name],
  )
  for (const version of [release, pinnedMusl().version, ...named]) expect(page).toContain(version)
})
