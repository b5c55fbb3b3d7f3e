import { expect, test } from "bun:test"
import { declarations } from "../declarations.ts"
import { entries } from "../package.ts"

const texts = await declarations(entries)

test.each(Object.keys(entries))("every export of %s has a comment, and no type of Bun or Node", (name) => {
  const text = texts[name] ?? ""
  const exported = [...text.matchAll(/^export (?!\{)(?:declare )?(?:abstract )?\w+ (\w+)/gm)]
  expect(exported.length).toBeGreaterThan(10)
  const bare = exported.filter(({ index }) => !text.slice(0, index).endsWith("*/\n")).map(([, found]) => found)
  expect(bare).toEqual([])
  const code = text.replace(/\/\*\*.*?\*\//gs, "")
  expect(code).not.toMatch(/\bBuffer\b|\bNodeJS\b|\bBun\b|\bUint8Array<|import\(/)
})

test("each type that an export of an entry names is exported too", () => {
  const inner = Object.entries(texts).map(([name, text]) => [
    name,
    [...text.matchAll(/^(?:declare )?(?:interface|type) (\w+)/gm)].map(([, found]) => found),
  ])
  expect(Object.fromEntries(inner)).toEqual({ libcni: [], plugin: [] })
})
