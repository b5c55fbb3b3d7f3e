import { describe, expect, test } from "bun:test"
import { CniError } from "../types/mod.ts"
import { Failures } from "./failures.ts"

const fail = (error: unknown) => () => {
  throw error
}

/** What `throwIfAny` throws after these steps. */
function thrownAfter(...errors: unknown[]): CniError | undefined {
  const failures = new Failures()
  for (const [index, error] of errors.entries()) failures.attempt(`do step ${index}`, fail(error))
  try {
    failures.throwIfAny()
    return undefined
  } catch (error) {
    return error as CniError
  }
}

describe("Failures", () => {
  test("goes through all steps and hands on their values", () => {
    const failures = new Failures()
    const done: string[] = []
    expect(failures.attempt("do the first", () => 1)).toBe(1)
    expect(failures.attempt("do the second", fail(new Error("no")))).toBeUndefined()
    failures.attempt("do the third", () => done.push("third"))
    expect(done).toEqual(["third"])
    expect(failures.any).toBeTrue()
  })

  test("throws nothing when nothing failed", () => {
    expect(thrownAfter()).toBeUndefined()
  })

  test("throws a CniError that is alone as it is", () => {
    const error = new CniError(11, "Cannot lock the store: held by another")
    expect(thrownAfter(error)).toBe(error)
  })

  test("names the step of another error that is alone, and keeps its text", () => {
    expect(thrownAfter(new Error("EBUSY"))).toMatchObject({ code: 999, message: "Cannot do step 0", details: "EBUSY" })
  })

  test("#43 several errors that will pass are one that will", () => {
    expect(thrownAfter(new CniError(11, "Cannot lock"), new CniError(11, "Cannot change"))).toMatchObject({ code: 11 })
    const passing = Object.assign(new Error("it kept changing"), { willPass: true })
    expect(thrownAfter(passing, passing)).toMatchObject({ code: 11 })
  })

  test("names every failure in one error with code 999", () => {
    const error = thrownAfter(new CniError(11, "Cannot lock the store", { details: "held by 42" }), new Error("EBUSY"))
    expect(error).toMatchObject({
      code: 999,
      message: "2 steps failed: Cannot lock the store; Cannot do step 1",
      details: "held by 42; EBUSY",
    })
  })
})
