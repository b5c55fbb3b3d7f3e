import { expect, test } from "bun:test"
import { mayHaveNumbers, numbersOf } from "./numbers.ts"

test.each([
  [["#12 holds"], [12]],
  [["#30, #34 to GC is empty"], [30, 34]],
  [["#7"], [7]],
  [["#83: too new"], [83]],
  [["a plugin", "#8 names its interface"], [8]],
  [
    ["#22 DEL", "of bridge", "#23 without a namespace"],
    [22, 23],
  ],
  [["#22 DEL", "#22, #22 twice"], [22]],
])("the titles %j carry the numbers %j", (titles, numbers) => {
  expect(numbersOf({ titles })).toEqual(numbers)
})

test.each(["holds #12", " #12 holds", "vlan#12", "# 12", "#!/bin/sh", "#12ab34 is a colour", "#fff", "'#12'"])(
  "the title %j carries no number",
  (title) => {
    expect(numbersOf({ titles: ["about", title] })).toEqual([])
  },
)

test.each([
  ['test("#12 holds", () => {})', true],
  ["test('#12 holds', () => {})", true],
  ["describe(`#12, #13 hold`, () => {})", true],
  ['test.each([["#154", "DEL"]])("%s %s is handed on", () => {})', true],
  ['test("holds", () => {}) // #12', false],
  ['const colour = "#12ab34"', false],
  ['const message = "Expected: 2&#10;"', false],
])("a file with %j is looked at for numbers: %p", (source, expected) => {
  expect(mayHaveNumbers(source)).toBe(expected)
})
