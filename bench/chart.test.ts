import { expect, test } from "bun:test"
import { drawChart } from "./chart.ts"

test("a row that both suites have gets two bars in proportion, its name readable by any program", () => {
  const shared = { runs: 1, min: 0, p99: 0, max: 0, cpuMs: 0, faults: 0, peakKb: 0, samples: [], failed: 0, ratio: 0 }
  const svg = drawChart([
    { ...shared, row: "a < b & c", contender: "ours", median: 5 },
    { ...shared, row: "a < b & c", contender: "Go", median: 20 },
    { ...shared, row: "a < b & c", contender: "kernel floor", median: 1 },
    { ...shared, row: "a < b & c, with a busy disk", contender: "Go", median: 20 },
    { ...shared, row: "ours alone", contender: "ours", median: 5 },
  ])
  expect([...svg.matchAll(/<rect x="\d+" y="\d+" width="([\d.]+)"/g)].map(([, width]) => Number(width))).toEqual([
    105, 420,
  ])
  expect(svg).toContain("a &lt; b &amp; c")
  expect(svg).not.toMatch(/ours alone|busy disk/)
})
