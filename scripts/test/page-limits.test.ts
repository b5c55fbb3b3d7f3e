/** Tests of the sizes of pages, and that each figure is written only once. */
import { expect, test } from "bun:test"
import { join } from "node:path"

const root = join(import.meta.dir, "../..")
const pages = [...new Bun.Glob("**/*.md").scanSync(root)].filter((page) => !/^(node_modules|dist)\//.test(page)).sort()
const textOf = (page: string) => Bun.file(join(root, page)).text()
const pagesIn = (folder: string) =>
  pages.filter((page) => page.startsWith(folder) && !page.slice(folder.length).includes("/"))

/** Returns the section of a page below a headline, without the headline. */
function sectionOf(text: string, headline: string): string {
  const start = text.indexOf(`\n${headline}\n`)
  expect({ headline, found: start >= 0 }).toEqual({ headline, found: true })
  const rest = text.slice(start + headline.length + 2)
  const end = rest.search(/^## /m)
  return (end < 0 ? rest : rest.slice(0, end)).trim()
}

test("docs/ has at most 12 pages for users and 6 for developers, and the index names all of them", async () => {
  const index = await textOf("docs/README.md")
  const [users, developers] = [pagesIn("docs/"), pagesIn("docs/develop/")]
  expect(users.length).toBeLessThanOrEqual(12)
  expect(developers.length).toBeLessThanOrEqual(6)
  const named = [...users, ...developers].filter((page) => page !== "docs/README.md")
  expect(named.filter((page) => !index.includes(`(${page.slice("docs/".length)})`))).toEqual([])
})

test("all pages together have at most 70,000 words", async () => {
  const read = pages.filter((page) => page !== "integration/cni/states.md") // a test reads and writes its table
  const words = (await Promise.all(read.map(textOf))).map((text) => text.split(/\s+/).length)
  expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(70_000)
})

test("README has at most 150 lines, and five rows of figures", async () => {
  const readme = await textOf("README.md")
  expect(readme.trimEnd().split("\n").length).toBeLessThanOrEqual(150)
  expect(sectionOf(readme, "## Figures").match(/^\| (?!what).*\d.* \|$/gm)).toHaveLength(5)
})

test("the changes of CHANGELOG that are not released have at most 30 lines", async () => {
  const unreleased = sectionOf(await textOf("CHANGELOG.md"), "## [Unreleased]")
  expect(unreleased.split("\n").length).toBeLessThanOrEqual(30)
})

test("CONTRIBUTING's table of commands has at most eight rows", async () => {
  const rows = sectionOf(await textOf("CONTRIBUTING.md"), "## Set-up").match(/^\| `npm /gm) ?? []
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.length).toBeLessThanOrEqual(8)
})

test("README's figures are those of the last written run of the benchmark", async () => {
  const rows = (await textOf("bench/rows.csv")).split("\n").map((line) => line.split(","))
  const cell = (row: string, contender: string, column: number) =>
    rows.find((cells) => cells[0] === row && cells[1] === contender)?.[column]
  const written = [
    ...sectionOf(await textOf("README.md"), "## Figures").matchAll(/^\| .* \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$/gm),
  ]
  const chain = "chain with 1 port beside 1"
  const measured = [
    "bridge VERSION",
    "host-local ADD",
    "bridge+host-local beside 1 ADD",
    `${chain} ADD`,
    `${chain} DEL`,
  ]
  const [MEDIAN, RATIO] = [4, 10]
  expect(written.map(([, ...cells]) => cells)).toEqual(
    measured.map((row) => [cell(row, "ours", MEDIAN), cell(row, "Go", MEDIAN), cell(row, "ours", RATIO)].map(String)),
  )
})

/** Pages whose rows `cni explain` and tests read one by one, and pages that a program writes. */
const tables = ["docs/errors.md", "docs/messages.md", "docs/findings.md", "docs/lint.md", "docs/figures.md"]

/** Returns the numbers with units in a text, except for those in examples. */
function figuresIn(text: string): string[] {
  const prose = text.replace(/^ *```.*?^ *```/gms, "").replace(/`[^`\n]*`/g, "")
  return [...prose.matchAll(/(?<![\w.,])\d[\d.,]* (?:ms|µs|s|[kKMG]i?B|%)(?!\w)/g)].map(([figure]) => figure)
}

test("a figure is found with its unit, and not in an example", () => {
  expect(figuresIn("takes 0.4 ms, 12 % of 3 MB\n\n```\n5 s\n```\n`6 s` and 7 seconds")).toEqual([
    "0.4 ms",
    "12 %",
    "3 MB",
  ])
})

test("no number with a unit stands in two pages: the second one links to the first", async () => {
  const places = new Map<string, string[]>()
  for (const page of pages.filter((page) => !tables.includes(page)))
    for (const figure of new Set(figuresIn(await textOf(page))))
      places.set(figure, [...(places.get(figure) ?? []), page])
  expect([...places].filter(([, at]) => at.length > 1)).toEqual([])
})
