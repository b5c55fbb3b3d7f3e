import { expect, test } from "bun:test"
import { CniError } from "../types/mod.ts"
import { requireForAdd, requireOneForAdd } from "./plugin.ts"

const refusal = (code: number, message: string, details?: string) => () => {
  throw new CniError(code, message, details === undefined ? {} : { details })
}
const bug = new Error("broken")
const broken = () => {
  throw bug
}
const thrownBy = (check: () => unknown): unknown => {
  try {
    return { returned: check() }
  } catch (error) {
    return error
  }
}

test("what ADD would refuse is code 50 for STATUS, in the same words; what it would not is returned", () => {
  expect(requireForAdd(() => 7)).toBe(7)
  const refused = { code: 50, message: 'Cannot use "eth9": no such link' }
  expect(thrownBy(() => requireForAdd(refusal(7, refused.message, "why")))).toMatchObject({
    ...refused,
    details: "why",
  })
  const bare = thrownBy(() => requireForAdd(refusal(7, refused.message))) as CniError
  expect(bare).toMatchObject(refused)
  expect(bare.details ?? "").toBe("")
  expect(thrownBy(() => requireForAdd(broken))).toBe(bug)
})

test("of several of which one is enough the others may be refused, and when all are it is for the first reason", () => {
  const tried: string[] = []
  const check = (fine: string) => (choice: string) => {
    tried.push(choice)
    if (choice !== fine) refusal(7, `not ${choice}`, `${choice} is taken`)()
  }
  requireOneForAdd([], check("a"))
  requireOneForAdd(["a", "b", "c"], check("b"))
  expect(tried.splice(0)).toEqual(["a", "b"])
  expect(thrownBy(() => requireOneForAdd(["a", "b"], check("none")))).toMatchObject({
    code: 50,
    message: "not a",
    details: "a is taken",
  })
  expect(tried).toEqual(["a", "b"])
  expect(thrownBy(() => requireOneForAdd(["a", "b"], broken))).toBe(bug)
})
