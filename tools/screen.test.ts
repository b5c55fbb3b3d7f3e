import { describe, expect, test } from "bun:test"
import { type Column, containerText, fittedTable, tinted, visible, wrapped } from "./screen.ts"

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

describe("a table that does not fit", () => {
  const columns: Column[] = [
    { head: "NETWORK", falls: 2 },
    { head: "NAME", isWhole: true },
    { head: "HOST", isWhole: true, falls: 1 },
    "NOTES",
  ]
  const row = ["production-network", "web-7d9f8b6c5d-x2x4z", "veth01ab23cd", "a lease without a namespace"]
  const shown = (width: number | undefined) =>
    fittedTable(columns, [row], { columns: width }).replace(/^.*\n/, "").trimEnd().split("  ")

  test("has all of it where nothing limits it, and on a terminal that is as wide", () => {
    expect(shown(undefined)).toEqual(row)
    expect(shown(18 + 20 + 12 + 27 + 6)).toEqual(row)
  })

  test("is cut first in columns that may be cut, the widest first", () => {
    expect(shown(72)).toEqual(["production-netwo…", row[1] ?? "", row[2] ?? "", "a lease without …"])
    expect(shown(8 + 20 + 12 + 8 + 6)).toEqual(["product…", row[1] ?? "", row[2] ?? "", "a lease…"])
  })

  test("then loses whole columns in their order, and what is left gets their room", () => {
    expect(shown(53)).toEqual(["production-ne…", row[1] ?? "", "a lease withou…"])
    expect(shown(39)).toEqual([row[1] ?? "", "a lease without …"])
  })

  test("never cuts a name, be the terminal as narrow as it may", () => {
    expect(shown(10)).toEqual([row[1] ?? "", "a lease…"])
  })
})

test("without heads a table is its rows", () => {
  expect(fittedTable(["NETWORK", "NAME"], [["a", "b"]], { hasHeads: false })).toBe("a  b\n")
})

test("a container's ID is shortened on a terminal, and no other name", () => {
  const id = "0123456789abcdef".repeat(4)
  expect(containerText(id, { columns: 80 })).toBe("0123456789ab")
  expect(containerText(id, {})).toBe(id)
  expect(containerText(`${id}0`, { columns: 80 })).toBe(`${id}0`)
  expect(containerText(`x${id}`.slice(0, 64), { columns: 80 })).toHaveLength(64)
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

test("text is as wide as the terminal, at most 120 characters, and 100 where there is none", () => {
  const words = (count: number) => "x ".repeat(count).trimEnd()
  const widths = (columns: number | undefined, indent = "") =>
    wrapped(words(200), { columns }, indent)
      .split("\n")
      .slice(0, 2)
      .map((line) => line.length)
  expect(widths(undefined)).toEqual([99, 99])
  expect(widths(99)).toEqual([99, 99])
  expect(widths(98)).toEqual([97, 97])
  expect(widths(119)).toEqual([119, 119])
  expect(widths(300)).toEqual([119, 119])
  expect(widths(21, "  ")).toEqual([21, 21])
  expect(widths(3)).toEqual([7, 7])
  expect(wrapped(`${"a".repeat(49)} ${"b".repeat(50)}`, {})).toBe(`${"a".repeat(49)} ${"b".repeat(50)}\n`)
  expect(wrapped(`${"a".repeat(50)} ${"b".repeat(50)}`, {})).toBe(`${"a".repeat(50)}\n${"b".repeat(50)}\n`)
  expect(wrapped("a-word-that-is-too-long b", { columns: 10 })).toBe("a-word-that-is-too-long\nb\n")
  expect(wrapped("", {})).toBe("\n")
})

// ECMA-48 8.3.117: 1 is bold, 2 faint, 31 red, 32 green, 33 yellow
test.each([
  ["good", "32"],
  ["warning", "33"],
  ["bad", "31;1"],
  ["quiet", "2"],
  ["strong", "1"],
] as const)("what is %s has a colour of its own", (tone, parameters) => {
  expect(tinted("x", tone, { colour: true })).toBe(`\x1b[${parameters}mx\x1b[0m`)
  expect(tinted("", tone, { colour: true })).toBe("")
})

test.each([
  ["eth0\x1b[2J\x1b[H", "eth0\\u001b[2J\\u001b[H"],
  ["a\x1b[H\x1b[J", "a\\u001b[H\\u001b[J"],
  ["\x1b[8mhidden\x1b]0;title\x07", "\\u001b[8mhidden\\u001b]0;title\\u0007"],
  ["up\r\x9b2Jdown\x00\x7f", "up\\u000d\\u009b2Jdown\\u0000\\u007f"],
  ["\u202e0hte", "\\u202e0hte"],
])("control characters are shown as escapes: %j", (text, shown) => {
  expect(visible(text)).toBe(shown)
})

test.each([
  "a line\n\tand another one\n",
  tinted("bad", "bad", { colour: true }) + tinted("quiet", "quiet", { colour: true }),
  "\x1b[H\x1b[Jcni ps\n",
  "\r\x1b[Kcni add: at work",
  "größer → 東京\n",
])("what the tools write stays as it is: %j", (text) => {
  expect(visible(text)).toBe(text)
})
