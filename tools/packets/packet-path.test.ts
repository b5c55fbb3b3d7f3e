import { expect, test } from "bun:test"
import { type Hop, joinPaths } from "./packet-path.ts"

const hop = (what: string): Hop => ({ where: "host", what, passes: "yes" })

test("what ways have in common is told once, and the rest by way", () => {
  expect(
    joinPaths([
      [hop("in"), hop("a"), hop("out")],
      [hop("in"), hop("b"), hop("out")],
    ]),
  ).toEqual([
    hop("in"),
    { ...hop("a"), way: 1 },
    { ...hop("out"), way: 1 },
    { ...hop("b"), way: 2 },
    { ...hop("out"), way: 2 },
  ])
})

test("equal ways are one, and a way may end where another goes on", () => {
  expect(joinPaths([[hop("in")], [hop("in")]])).toEqual([hop("in")])
  expect(
    joinPaths([
      [hop("in"), hop("a")],
      [hop("in"), hop("a"), hop("b")],
    ]),
  ).toEqual([hop("in"), { ...hop("a"), way: 1 }, { ...hop("a"), way: 2 }, { ...hop("b"), way: 2 }])
})
