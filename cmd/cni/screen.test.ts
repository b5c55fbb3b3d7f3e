import { expect, test } from "bun:test"
import { fittedTable, tinted, wrapped } from "./screen.ts"

const rows = [
  ["lab", "0123456789abcdef0123456789abcdef", { text: "alive", tone: "good" as const }],
  ["laboratory", "c2", { text: "gone", tone: "bad" as const }],
]

test("without a terminal a table is as wide as its cells, and has no colours", () => {
  expect(fittedTable(["NETWORK", "CONTAINER", "NAMESPACE"], rows, {})).toBe(
    [
      "NETWORK     CONTAINER                         NAMESPACE",
      "lab         0123456789abcdef0123456789abcdef  alive",
      "laboratory  c2                                gone",
      "",
    ].join("\n"),
  )
})

test("on a terminal the widest column is cut until every line fits", () => {
  const lines = fittedTable(["NETWORK", "CONTAINER", "NAMESPACE"], rows, { columns: 40 }).split("\n")
  expect(lines[1]).toBe("lab         0123456789abcdef…  alive")
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(40)
})

test("a terminal that is too narrow for anything still gets whole short columns", () => {
  expect(fittedTable(["A"], [["0123456789"]], { columns: 3 })).toBe("A\n0123456…\n")
})

test("colour is around the text, after it was cut and before it is filled up, and never instead of it", () => {
  const [, first = ""] = fittedTable(["NETWORK", "CONTAINER", "NAMESPACE"], rows, { colour: true }).split("\n")
  expect(first).toEndWith("  \x1b[32malive\x1b[0m")
  expect(tinted("gone", "bad", {})).toBe("gone")
})

test("no rows are no table", () => {
  expect(fittedTable(["A"], [], { columns: 80 })).toBe("")
})

test("text is broken between words", () => {
  expect(wrapped("one two three", { columns: 9 }, " ")).toBe(" one two\n three\n")
})
