import { describe, expect, test } from "bun:test"
import { differenceOf, format, parseEquivalents } from "./equivalent.ts"
import { applyChange, changesOf } from "./operators.ts"

/** The sources that one mistake makes of this one. */
const mistakes = (source: string) => changesOf(source).map((change) => applyChange(source, change))

describe("a mistake is made", () => {
  test.each([
    ["x = a < b", ["x = a <= b", "x = a >= b", ";"]],
    ["x = a && b", ["x = a || b", ";"]],
    ["x = a ?? b", ["x = a", "x = b", ";"]],
    ["f(...a)", ["f()", ";"]],
    ["a?.b()", ["a.b()", ";"]],
    ["x = [a, b]", ["x = [b]", "x = [a]", ";"]],
    ["x = { a, ...b }", ["x = { ...b }", "x = { a }", ";"]],
    ["x = /^[a]$/u", ["x = /[a]$/u", "x = /^[a]/u", "x = /^[^a]$/u", "x = /^[a]$/", ";"]],
    ["if (a) b()", ["if (true) b()", "if (false) b()", "if (a) ;"]],
    ["throw a", [";"]],
    ["{ using a = b }", ["{ const a = b }"]],
    ["x = -a", ["x = a", ";"]],
    ["x = 8", ["x = 9", "x = 7", ";"]],
    ["x = true", ["x = false", ";"]],
    ['x = "a"', ['x = ""', ";"]],
    ["x = a.slice(b)", ["x = a", ";"]],
    ["i++", ["i--", ";"]],
  ])("in %s", (source, expected) => {
    expect(mistakes(source).sort()).toEqual([...expected].sort())
  })

  test("in no type and no import, and not in the key of a field", () => {
    const source = `import { a } from "a"
export type T = "b" | 3
export { c } from "c"
const x = { "d-e": f } as { "d-e": 3 }`
    expect(mistakes(source)).toEqual([source.replace('"d-e": f', "")])
  })
})

describe("a mistake that makes no difference", () => {
  test("is written as the tool prints it, with the reason below", () => {
    const difference = differenceOf("a.ts", "a\n  b\nc\n", "a\n  d\nc\n")
    expect(format(difference)).toBe("a.ts\n- b\n+ d")
    expect(parseEquivalents(`${format(difference)}\n= nobody reads it\n\n- e\n= nor this`)).toEqual([
      { file: "a.ts", before: ["b"], after: ["d"], reason: "nobody reads it" },
      { file: "a.ts", before: ["e"], after: [], reason: "nor this" },
    ])
  })
})
