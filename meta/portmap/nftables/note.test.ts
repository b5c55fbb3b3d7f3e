import { expect, test } from "bun:test"
import fc from "fast-check"
import { decodeNote, encodeNote } from "./note.ts"

test("a note is four fields", () => {
  const note = { of: 3, isConditional: false, prefix: 16, netns: "/run/netns/x y" }
  expect(encodeNote(note)).toBe("3\t\t16\t/run/netns/x y")
  expect(decodeNote("3\t\t16\t/run/netns/x y")).toEqual(note)
  expect(decodeNote("3\tconditional\t64\t")).toEqual({ of: 3, isConditional: true, prefix: 64, netns: "" })
})

test("a path that is too long is left out, and everything else stays", () => {
  const note = { of: 3, isConditional: true, prefix: 16, netns: `/${"ü".repeat(60)}` }
  expect(decodeNote(encodeNote(note))).toEqual({ ...note, netns: "" })
})

test("what is no note is none", () => {
  for (const text of [undefined, "", "3", "x\t\t16\t", "3\t\tx\t", "3\t\t16"]) expect(decodeNote(text)).toBeUndefined()
  fc.assert(fc.property(fc.string(), (text) => decodeNote(text) === undefined || text.includes("\t")))
})
