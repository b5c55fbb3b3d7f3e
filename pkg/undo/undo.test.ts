import { describe, expect, test } from "bun:test"
import { CniError } from "../types/mod.ts"
import { Failures, Undo } from "./mod.ts"

/** Makes the changes "a", "b" and "c" in one scope. The change `failing` throws. Returns the events in order. */
function change(options: { keep?: boolean; failing?: string; stuck?: string } = {}): string[] {
  const events: string[] = []
  try {
    using undo = new Undo((line) => events.push(`log: ${line}`))
    for (const name of ["a", "b", "c"]) {
      if (name === options.failing) throw new Error(`no ${name}`)
      events.push(`make ${name}`)
      undo.defer(`make ${name}`, () => {
        if (name === options.stuck) throw new Error(`${name} is stuck`)
        events.push(`remove ${name}`)
      })
    }
    if (options.keep) undo.keep()
  } catch (error) {
    events.push(String(error))
  }
  return events
}

describe("Undo", () => {
  test("takes everything back, the last change first, when the scope is left", () => {
    expect(change()).toEqual(["make a", "make b", "make c", "remove c", "remove b", "remove a"])
  })

  test("takes nothing back once it was told to keep", () => {
    expect(change({ keep: true })).toEqual(["make a", "make b", "make c"])
  })

  test("does not take back the change that failed, and lets its error through", () => {
    expect(change({ failing: "b" })).toEqual(["make a", "remove a", "Error: no b"])
  })

  test("takes back a change that failed in part, whose reverse was added before it", () => {
    const present: string[] = []
    const change = () => {
      using undo = new Undo(() => {})
      undo.defer("add two", () => present.splice(0))
      present.push("first")
      throw new Error("no second")
    }
    expect(change).toThrow("no second")
    expect(present).toEqual([])
  })

  test("takes back a change whose answer was lost, and no other change that was refused", () => {
    const events: string[] = []
    const lost = Object.assign(new Error("no answer"), { isLost: true })
    for (const error of [undefined, new Error("Cannot add", { cause: lost }), new Error("no")]) {
      using undo = new Undo((line) => events.push(line))
      const change = () => {
        if (error) throw error
        return "made"
      }
      try {
        events.push(undo.defer("add", () => events.push("removed"), change))
      } catch (thrown) {
        events.push(String(thrown))
      }
    }
    expect(events).toEqual(["made", "removed", "Error: Cannot add", "removed", "Error: no"])
  })

  test("logs a reverse that fails, goes on, and does not bury the first error", () => {
    expect(change({ failing: "c", stuck: "b" })).toEqual([
      "make a",
      "make b",
      "remove a",
      'log: Cannot undo "make b": b is stuck',
      "Error: no c",
    ])
  })

  test("tries reverses that fail once more when all others are done, in the same order", () => {
    const events: string[] = []
    const tries = { a: 1, b: 2, c: 3 }
    {
      using undo = new Undo((line) => events.push(line))
      for (const name of ["a", "b", "c"] as const) {
        undo.defer(`make ${name}`, () => {
          events.push(name)
          if (--tries[name] > 0) throw new Error("busy")
        })
      }
    }
    expect(events).toEqual(["c", "b", "a", "c", "b", 'Cannot undo "make c": busy'])
  })

  test("takes everything back once only", () => {
    const events: string[] = []
    const undo = new Undo(() => {})
    undo.defer("make", () => events.push("remove"))
    undo[Symbol.dispose]()
    undo[Symbol.dispose]()
    expect(events).toEqual(["remove"])
  })
})

const fail = (error: unknown) => () => {
  throw error
}

/** Returns the exception of `throwIfAny` after these steps. */
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
  test("may pass when one of them, or what caused it, is a shortage of the kernel's", () => {
    const error = (errno: string) => Object.assign(new Error(errno), { errno })
    const mayPass = (...errors: Error[]) => {
      const failures = new Failures()
      for (const one of errors) {
        failures.attempt("act", () => {
          throw one
        })
      }
      return failures.mayPass
    }
    expect(mayPass()).toBe(false)
    expect(mayPass(error("EROFS"), error("EINVAL"), new Error("no"))).toBe(false)
    for (const errno of ["ENOMEM", "EMFILE", "EBUSY"]) expect(mayPass(error("EROFS"), error(errno))).toBe(true)
    expect(mayPass(new CniError(999, "Cannot set", { cause: error("ENOBUFS") }))).toBe(true)
  })

  test("goes through all steps and hands on their values", () => {
    const failures = new Failures()
    const done: string[] = []
    expect(failures.any).toBeFalse()
    expect(failures.attempt("do the first", () => 1)).toBe(1)
    expect(failures.any).toBeFalse()
    expect(failures.attempt("do the second", fail(new Error("no")))).toBeUndefined()
    failures.attempt("do the third", () => done.push("third"))
    expect(done).toEqual(["third"])
    expect(failures.any).toBeTrue()
  })

  test("with a log, tells what was given up for lack of time, and goes on; without one that is a failure", () => {
    const giveUp = () => {
      throw Object.assign(new Error("list links: the container's list is too long (ETIME)"), { errno: "ETIME" })
    }
    const lines: string[] = []
    const logged = new Failures((line) => lines.push(line))
    expect(logged.attempt("delete links", giveUp)).toBeUndefined()
    logged.attempt("delete rules", () => {
      throw new CniError(999, "Cannot list rules", { cause: new Error("no", { cause: catchFrom(giveUp) }) })
    })
    expect(() => logged.throwIfAny()).not.toThrow()
    expect(lines).toEqual([
      "Cannot delete links; list links: the container's list is too long (ETIME); the rest is deleted with the container's namespace",
      expect.stringContaining("Cannot list rules; no: list links: "),
    ])
    logged.attempt("list", fail(Object.assign(new Error("list links: EMSGSIZE"), { errno: "EMSGSIZE" })))
    expect(lines.at(-1)).toBe("Cannot list; list links: EMSGSIZE; the rest is deleted with the container's namespace")
    logged.attempt("act", fail(new Error("no")))
    expect(() => logged.throwIfAny()).toThrow("Cannot act")
    const other = new Failures()
    other.attempt("delete links", giveUp)
    expect(() => other.throwIfAny()).toThrow("Cannot delete links")
  })

  test("throws nothing, and has none, when nothing failed", () => {
    const failures = new Failures()
    failures.attempt("do the first", () => 1)
    expect(failures.any).toBeFalse()
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
    const bare = thrownAfter(new CniError(7, "Cannot parse"), new CniError(7, "Cannot use", { details: "no key" }))
    expect(bare?.details).toBe("no key")
  })
})

function catchFrom(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}
