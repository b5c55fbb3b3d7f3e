import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dir, "../..")
const page = await Bun.file(join(root, "docs/security.md")).text()

/** The tests that the page names: file, space and id of each. */
const named = [...page.matchAll(/`([\w./-]+\.test\.ts)`((?:,? \[S\d+\])+)/g)].flatMap(([, file = "", ids = ""]) =>
  [...ids.matchAll(/\[S\d+\]/g)].map(([id]) => `${file} ${id}`),
)

/** Returns the ids at the end of test titles in a file. The page names ids, so that titles can be reworded. */
async function idsIn(file: string): Promise<string[]> {
  const source = await Bun.file(join(root, file)).text()
  return [...source.matchAll(/(\[S\d+\])["`]/g)].map(([, id]) => `${file} ${id}`)
}

const testFiles = [...new Bun.Glob("*/**/*.test.ts").scanSync(root)].filter((file) => !file.startsWith("node_modules/"))
const held = (await Promise.all(testFiles.map(idsIn))).flat()

test("each id on the page ends the title of a test in the file beside it, and no other test has an id", () => {
  expect(named.length).toBeGreaterThan(100)
  expect([...held].sort()).toEqual([...new Set(named)].sort())
})

test("no two tests have the same id", () => {
  const ids = held.map((one) => one.split(" ")[1] ?? "")
  expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
})

test("each row of a table of claims names a test, or says that nothing is done", () => {
  const rows = [...page.matchAll(/^\| claim \|.*\n\|.*\n((?:\|.*\n)+)/gm)].flatMap(([, body = ""]) =>
    body.trim().split("\n"),
  )
  expect(rows.length).toBeGreaterThan(30)
  expect(rows.filter((row) => !/\.test\.ts` \[S\d+\]/.test(row) && !/\| not defended \|$/.test(row))).toEqual([])
})

test("every test file that the page mentions exists", () => {
  const mentioned = [...page.matchAll(/`([\w./-]+\.test\.ts)`/g)].map(([, file = ""]) => file)
  expect(mentioned.filter((file) => !existsSync(join(root, file)))).toEqual([])
})
