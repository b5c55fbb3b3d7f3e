import { expect, test } from "bun:test"
import { type Choices, explore } from "./choices.ts"

/** Chooses one of three endpoints like iptables rules of a service: one of three, else one of two, else the last. */
const service = (choices: Choices) => (choices.take(2) === 0 ? "a" : choices.take(2) === 0 ? "b" : "c")

test("each way is walked once, also where a choice depends on the one before", () => {
  expect(explore(service, 16)).toEqual({ found: ["a", "b", "c"], isAll: true })
  expect(explore((choices) => [choices.take(3), choices.take(2)].join(), 16).found).toEqual(
    "0,0 0,1 1,0 1,1 2,0 2,1".split(" "),
  )
  expect(explore(() => "none", 16)).toEqual({ found: ["none"], isAll: true })
})

test("no more than wanted are walked, and that there are more is known", () => {
  expect(explore(service, 2)).toEqual({ found: ["a", "b"], isAll: false })
  expect(explore(service, 3)).toEqual({ found: ["a", "b", "c"], isAll: true })
})
