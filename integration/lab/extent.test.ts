import { expect, test } from "bun:test"
import { readFigures, readShare } from "./extent.ts"

test("a share of a long form is its beginning, or from one place to another", () => {
  expect(readShare("0.3")).toEqual({ from: 0, to: 0.3 })
  expect(readShare("0.3-1")).toEqual({ from: 0.3, to: 1 })
  for (const wrong of ["", "x", "0", "1.5", "0.3-0.3", "0.5-0.3", "-1", "0.1-0.2-0.3", ".-1"])
    expect(() => readShare(wrong)).toThrow(`Cannot use CNI_FAULTS_SHARE=${wrong}`)
})

test("figures that were told are rows of a table", () => {
  const text = '{"what":"a","tried":2,"held":1}\n{"what":"b","tried":3,"held":3,"note":"c"}\n'
  expect(readFigures(text)).toEqual(["| a | 2 | 1 |  |", "| b | 3 | 3 | c |"])
})
