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
    ["f(a, b, c)", ["f(b, a, c)", "f(a, c, b)", ";"]],
    ["f(a, ...b)", ["f(a)", ";"]],
    ["isErrno(a, b, c)", [";"]],
    ["throw new F(a, b)", ["throw new F(b, a)", ";"]],
    ["x = a.map(f)", ["x = a.slice(0, 1).map(f)", ";"]],
    ["for (const x of a) f(x)", ["for (const x of [...a].slice(0, 1)) f(x)", "for (const x of a) ;"]],
    ["{ f()\ng() }", ["{ g()\nf() }", "{ ;\ng() }", "{ f()\n; }"]],
    [
      "{ if (a) f()\nusing b = g() }",
      [
        "{ using b = g()\nif (a) f() }",
        "{ if (true) f()\nusing b = g() }",
        "{ if (false) f()\nusing b = g() }",
        "{ if (a) ;\nusing b = g() }",
        "{ if (a) f()\nconst b = g() }",
      ],
    ],
    ["{ f()\nconst b = g() }", ["{ const b = g()\nf() }", "{ ;\nconst b = g() }"]],
  ])("in %s", (source, expected) => {
    expect(mistakes(source).sort()).toEqual([...expected].sort())
  })

  test("in no order of statements that says nothing, or that would not compile", () => {
    const swapped = (body: string) =>
      changesOf(`function h() {\n${body}\n}`).filter(({ operator }) => /swapped/.test(operator))
    expect(swapped("const a = f()\nconst b = g()")).toEqual([])
    expect(swapped("f()\nconst b = 1")).toEqual([])
    expect(swapped("f()\nconst b = () => g()")).toEqual([])
    expect(swapped("if (c) return\nconst b = g()")).toEqual([])
    expect(swapped("const { a } = f()\ng(a)")).toEqual([])
    expect(swapped("using a = f()\nif (a.b) return")).toEqual([])
    expect(swapped("f()\nreturn g()")).toEqual([])
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
    expect(parseEquivalents(`${format(difference)}\n= it is not read\n\n- e\n= nor this`)).toEqual([
      { file: "a.ts", before: ["b"], after: ["d"], reason: "it is not read" },
      { file: "a.ts", before: ["e"], after: [], reason: "nor this" },
    ])
  })
})
