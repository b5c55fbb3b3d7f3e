import { expect, test } from "bun:test"
import { formatTable } from "./report.ts"

test("a table has one block per row, aligned, with the verdict on targets", () => {
  const shared = { runs: 30, min: 1, max: 120.5 }
  const table = formatTable([
    { row: "bridge ADD", contender: "ours", ...shared, median: 8, ratio: 0.4, target: 0.5 },
    { row: "bridge ADD", contender: "Go", ...shared, median: 20, ratio: 1 },
    { row: "bridge DEL", contender: "ours", ...shared, median: 30, ratio: 1.5, target: 0.5 },
  ])
  expect(table).toBe(
    [
      "ms             runs      min   median      max  ratio",
      "",
      "bridge ADD",
      "  ours           30     1.00     8.00   120.50  0.40 (target 0.5: met)",
      "  Go             30     1.00    20.00   120.50  1.00",
      "",
      "bridge DEL",
      "  ours           30     1.00    30.00   120.50  1.50 (target 0.5: MISSED)",
    ].join("\n"),
  )
})
