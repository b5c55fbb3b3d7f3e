import { expect, test } from "bun:test"
import { join } from "node:path"
import { Code } from "../../pkg/types/mod.ts"

const root = join(import.meta.dir, "../..")
const page = await Bun.file(join(root, "docs/errors.md")).text()
const sections = page
  .split(/^## /m)
  .flatMap((text) => (/^\d+:/.test(text) ? [{ code: Number.parseInt(text, 10), text }] : []))

interface Message {
  readonly file: string
  readonly code: number | undefined
  /** The text, with "X" in place of values. */
  readonly text: string
}

/** Returns the error messages in a source file that are literals and begin with fixed words. */
async function messagesIn(file: string): Promise<Message[]> {
  const source = await Bun.file(join(root, file)).text()
  const made = source.matchAll(/CniError\(\s*Code\.(\w+),\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`[,)\s])/g)
  return [...made].flatMap(([, name, plain, template = ""]) => {
    const code = Object.entries(Code).find(([known]) => known === name)?.[1]
    const text = (plain ?? template).replaceAll(/\$\{[^{}]*\}/g, "X").replaceAll('\\"', '"')
    return /^(Cannot X|X)|\$\{/.test(text) ? [] : [{ file, code, text }]
  })
}

/** Reports whether a section lists the message in code format, with "…" in place of values. */
function isListed({ code, text }: Message): boolean {
  const section = sections.find((one) => one.code === code)?.text ?? ""
  const patterns = [...section.matchAll(/`([^`]+)`/g)].map(([, pattern = ""]) =>
    pattern
      .split(/…|KEY/)
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
      .join(".*"),
  )
  return patterns.some((pattern) => new RegExp(pattern).test(text))
}

test("the page has a section for every code", () => {
  expect(sections.map(({ code }) => code)).toEqual(Object.values(Code).sort((a, b) => a - b))
})

test("the page has every message, in the section of its code", async () => {
  const files = [...new Bun.Glob("{pkg,plugins,ipam,meta,install}/**/*.ts").scanSync(root)]
  const ours = files.filter((file) => !/\.(test|fixture)\.ts$|\/testing/.test(file)).sort()
  const messages = (await Promise.all(ours.map(messagesIn))).flat()
  expect(messages.length).toBeGreaterThan(100)
  expect(messages.filter((message) => !isListed(message))).toEqual([])
})
