import { expect, test } from "bun:test"
import { formatTables } from "./report.ts"

test("measurements have one block per row, with calls that failed, verdicts their bound and what came of it", () => {
  const shared = { runs: 30, min: 1, p99: 99, max: 120.5, cpuMs: 2, peakKb: 3_072, samples: [], failed: 0, faults: 300 }
  const text = formatTables(
    [
      { row: "bridge ADD", contender: "ours", ...shared, median: 8, ratio: 0.4 },
      { row: "bridge ADD", contender: "Go", ...shared, median: 20, ratio: 1, failed: 3 },
      { row: "bridge DEL", contender: "ours", ...shared, median: 30, ratio: 1.5 },
    ],
    [
      {
        what: "bridge ADD",
        value: 0.39,
        interval: { low: 0.384, high: 0.4 },
        unit: "x",
        atMost: true,
        must: 0.4,
        goal: 0.385,
      },
      { what: "ADD/s", value: 3.9, interval: { low: 3, high: 3.99 }, unit: "x", atMost: false, must: 4, goal: 3.5 },
      { what: "memory", value: 3, unit: "MB", atMost: true, must: 4 },
    ],
  )
  expect(text).toBe(
    [
      "ms              runs   min  median    p99     max   CPU   MB  faults  ratio",
      "",
      "bridge ADD",
      "  ours            30  1.00    8.00  99.00  120.50  2.00  3.0     300   0.40",
      "  Go, 3 failed    30  1.00   20.00  99.00  120.50  2.00  3.0     300   1.00",
      "",
      "bridge DEL",
      "  ours            30  1.00   30.00  99.00  120.50  2.00  3.0     300   1.50",
      "",
      "target      is    95 %         must             goal",
      "bridge ADD  0.39  0.38 to 0.4  <= 0.4   met     <= 0.385  unsure",
      "ADD/s       3.9   3 to 3.99    >= 4     MISSED  >= 3.5    unsure",
      "memory      3 MB               <= 4 MB  met",
    ].join("\n"),
  )
})
