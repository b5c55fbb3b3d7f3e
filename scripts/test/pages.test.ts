import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"

const root = join(import.meta.dir, "../..")
const pages = [...new Bun.Glob("**/*.md").scanSync(root)].filter((page) => !/^(node_modules|dist)\//.test(page))
const textOf = (page: string) => Bun.file(join(root, page)).text()

/** Returns the anchor that GitHub creates for a headline. */
function anchor(headline: string): string {
  const plain = headline.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "")
  return plain.replaceAll(" ", "-")
}

/** Returns the targets of a page's links inside this repository. */
async function targetsOf(page: string): Promise<string[]> {
  const prose = (await textOf(page)).replace(/^ *```.*?^ *```/gms, "").replace(/`[^`\n]*`/g, "")
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target]) => target ?? [])
  return links.filter((target) => !/^[a-z]+:/.test(target))
}

async function anchorsOf(page: string): Promise<string[]> {
  return [...(await textOf(page)).matchAll(/^#+ (.*)$/gm)].flatMap(([, headline]) => anchor(headline ?? ""))
}

test("there are pages to look at", () => {
  expect(pages).toContain("README.md")
  expect(pages).toContain("docs/errors.md")
  expect(pages).toContain("plugins/bridge/README.md")
})

test.each(pages.sort())("every link of %s leads to a file, and to a headline in it", async (page) => {
  const broken: string[] = []
  for (const target of await targetsOf(page)) {
    const [path = "", headline] = target.split("#")
    const file = path === "" ? page : relative(root, join(root, dirname(page), path))
    const exists = existsSync(join(root, file))
    if (!exists || (headline && !(await anchorsOf(file)).includes(headline))) broken.push(target)
  }
  expect(broken).toEqual([])
})

test("every page of docs/ that a source or a page names exists", async () => {
  const files = [...new Bun.Glob("*/**/*.{ts,c,h,sh,yaml,service,txt}").scanSync(root)]
  const sources = files.filter((file) => !/(^|\/)(node_modules|dist)\//.test(file))
  const missing: string[] = []
  for (const file of [...sources, ...pages])
    for (const [page] of (await textOf(file)).matchAll(/(?<![\w/.-])docs\/[\w/-]+\.md\b/g))
      if (!existsSync(join(root, page))) missing.push(`${file}: ${page}`)
  expect(missing).toEqual([])
})

test("every npm command that a page names exists", async () => {
  const { scripts } = await Bun.file(join(root, "package.json")).json()
  const named = (await Promise.all(pages.map(textOf))).join("\n").matchAll(/npm run (?:--silent )?([a-z][\w:]*)/g)
  const unknown = [...named].flatMap(([, name = ""]) => (name in scripts ? [] : [name]))
  expect(unknown).toEqual([])
})

/** Returns the plugins whose names are in a text. */
const pluginsIn = (text: string) => pluginNames.filter((name) => new RegExp(`(?<![\\w-])${name}(?![\\w-])`).test(text))

test("README has a row for every plugin, with the link to its page", async () => {
  const rows = [...(await textOf("README.md")).matchAll(/^\| \[([\w-]+)\]\(\w+\/\1\/README\.md\) \|/gm)].map(
    ([, name]) => name,
  )
  expect(rows.sort()).toEqual([...pluginNames])
})

test("the list of rooms in architecture.md has every plugin in its room", async () => {
  const page = await textOf("docs/develop/architecture.md")
  const listed = [...page.matchAll(/^(plugins|ipam|meta)\/ {2,}[a-z ]+ {2,}(.+)$/gm)]
  const files = listed.flatMap(([, room, names = ""]) => names.split(" ").map((name) => `${room}/${name}/main.ts`))
  expect(files.sort()).toEqual([...new Bun.Glob("{plugins,ipam,meta}/*/main.ts").scanSync(root)].sort())
})

test("troubleshooting.md says of every plugin how its state is looked at and taken back", async () => {
  const page = await textOf("docs/troubleshooting.md")
  const section = page.slice(page.indexOf("## What is there"), page.indexOf("## Beside"))
  expect(pluginNames.filter((name) => !pluginsIn(section).includes(name))).toEqual([])
})
