import { expect, test } from "bun:test"
import { join } from "node:path"
import type { Measurement } from "./measure.ts"
import { formatPage, formatRows } from "./results.ts"

const measured: Measurement = {
  row: "host-local, no store, ADD",
  contender: "ours",
  runs: 300,
  min: 1.39,
  median: 1.612,
  p99: 2.83,
  max: 3.28,
  cpuMs: 1.57,
  peakKb: 1229,
  faults: 84,
  ratio: 0.62,
  failed: 0,
  samples: [],
}

test("the rows are CSV, with quotes around a cell that has a comma", () => {
  expect(formatRows([measured])).toBe(
    `row,contender,runs,min,median,p99,max,CPU,MB,faults,ratio
"host-local, no store, ADD",ours,300,1.39,1.61,2.83,3.28,1.57,1.2,84,0.62
`,
  )
})

test("docs/figures.md is a page as a run writes it", async () => {
  const page = await Bun.file(join(import.meta.dir, "../docs/figures.md")).text()
  const [, command = "", facts = ""] = /^- Made by `(.*)`\n((?:- .*\n)+)/m.exec(page) ?? []
  const written = formatPage({
    command,
    facts: facts
      .trimEnd()
      .split("\n")
      .map((fact) => fact.slice(2)),
    verdicts: [],
  })
  expect(page).toStartWith(written.trimEnd())
})
