import { expect, test } from "bun:test"
import { join } from "node:path"

const root = join(import.meta.dir, "../..")
const files = [...new Bun.Glob("{plugins,ipam,meta}/*/config.ts").scanSync(root)].sort()
const textOf = (file: string) => Bun.file(join(root, file)).text()

test("the type of a configuration is inferred from its fields: no file writes it out", async () => {
  expect(files.length).toBeGreaterThan(15)
  const texts = await Promise.all(files.map(async (file) => ({ file, text: await textOf(file) })))
  const written = texts.flatMap(({ file, text }) => [...text.matchAll(/interface \w+Config\b/g)].map(() => file))
  expect(written).toEqual([])
})

/** Matches "isolated: read.portIsolation,", "{ vrfname: name } = parseConfig(", "{ zone: other }: FirewallConfig". */
const renamings = [
  /^ {4}(?!(\w+): read\.\1\b)\w+: read\.\w+( \|\| [^,]+)?,$/gm,
  /\{[^{}]*\b\w+: \w+\b[^{}]*\}(?:: \w+Config\b| = parseConfig\()/g,
]

test.each(["plugins", "ipam", "meta"])("a value keeps the name of its key in %s", async (room) => {
  const sources = [...new Bun.Glob(`${room}/**/*.ts`).scanSync(root)].filter((file) => !file.endsWith(".test.ts"))
  const texts = await Promise.all(sources.map(textOf))
  expect(texts.flatMap((text) => renamings.flatMap((renaming) => text.match(renaming) ?? []))).toEqual([])
})
