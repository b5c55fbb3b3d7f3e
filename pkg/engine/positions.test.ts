import { expect, test } from "bun:test"
import { findPosition } from "./positions.ts"

// A table in the format that `encodePositions` of scripts/bundle.ts describes, written by hand. Of the bundle "two",
// line 1 has no source, line 2 is line 7 of the second file, and so on.
const table = [
  ...["one", "pkg/o.ts", "0:1"],
  ...["two", "pkg/a.ts,pkg/b.ts", "0,1:7,,5,-2@20:-1@30:4,x,0,0:9,"],
  ...["x", "", ""],
].join("\n")

test.each([
  [1, 1, undefined],
  [2, 1, "pkg/b.ts:7"],
  [3, 99, "pkg/b.ts:8"], // the source line is the next one
  [4, 1, "pkg/b.ts:13"], // the source line is five lines further
  [5, 20, "pkg/b.ts:11"], // the function counts columns from 1, the table from 0
  [5, 21, "pkg/b.ts:10"],
  [5, 30, "pkg/b.ts:10"],
  [5, 31, "pkg/b.ts:14"],
  [6, 1, undefined], // a file outside the suite
  [7, 1, undefined],
  [8, 1, "pkg/a.ts:9"],
  [9, 1, "pkg/a.ts:10"], // the table's column 0 does not advance the source line
])("line %d, column %d is %p", (line, column, source) => {
  expect(findPosition(table, "two", line, column)).toBe(source)
})

test("a bundle is found by its whole name, and one that does not exist has no source", () => {
  expect(findPosition(table, "one", 1, 1)).toBe("pkg/o.ts:1")
  for (const bundle of ["tw", "", "x", "three"]) expect(findPosition(table, bundle, 1, 1)).toBeUndefined()
})
