import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dir, "../..")
const page = await Bun.file(join(root, "docs/security.md")).text()

/** A test as the page names it: `folder/x.test.ts`: "words of its title". Several titles of one file have ";" between them. */
const named = /`([\w./-]+\.test\.ts)`: ("[^"\n]+"(?:; "[^"\n]+")*)/g

interface Named {
  readonly file: string
  readonly title: string
}

function testsNamed(): Named[] {
  return [...page.matchAll(named)].flatMap(([, file = "", titles = ""]) =>
    titles.split("; ").map((title) => ({ file, title: title.slice(1, -1) })),
  )
}

/** Whether a file has a test, or a group of them, with these words in its title: a text at the start of a line, or of arguments. */
async function hasTitle({ file, title }: Named): Promise<boolean> {
  const words = title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  return new RegExp(`(?:^ *|\\()["\`][^"\`\n]*${words}`, "m").test(await Bun.file(join(root, file)).text())
}

test("the page names many tests", () => {
  expect(testsNamed().length).toBeGreaterThan(40)
})

test("every test that the page names exists, by its file and its title", async () => {
  const missing: Named[] = []
  for (const one of testsNamed()) {
    if (!existsSync(join(root, one.file)) || !(await hasTitle(one))) missing.push(one)
  }
  expect(missing).toEqual([])
})

test("each row of a table of claims names a test, or says that nothing is done", () => {
  const rows = [...page.matchAll(/^\| claim \|.*\n\|.*\n((?:\|.*\n)+)/gm)].flatMap(([, body = ""]) =>
    body.trim().split("\n"),
  )
  expect(rows.length).toBeGreaterThan(30)
  expect(rows.filter((row) => !/\.test\.ts`: "/.test(row) && !/\| not defended \|$/.test(row))).toEqual([])
})

test("every test file that the page mentions exists", () => {
  const mentioned = [...page.matchAll(/`([\w./-]+\.test\.ts)`/g)].map(([, file = ""]) => file)
  expect(mentioned.filter((file) => !existsSync(join(root, file)))).toEqual([])
})
