import { describe, expect, test } from "bun:test"
import { Undo } from "./undo.ts"

/** Makes the changes "a", "b", "c", of which `failing` throws, in a scope of its own; answers what happened in order. */
function change(options: { keep?: boolean; failing?: string; stuck?: string } = {}): string[] {
  const events: string[] = []
  try {
    using undo = new Undo((line) => events.push(`log: ${line}`))
    for (const name of ["a", "b", "c"]) {
      undo.step(
        `make ${name}`,
        () => {
          if (name === options.failing) throw new Error(`no ${name}`)
          events.push(`make ${name}`)
        },
        () => {
          if (name === options.stuck) throw new Error(`${name} is stuck`)
          events.push(`remove ${name}`)
        },
      )
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

  test("logs a reverse that fails, goes on, and does not bury the first error", () => {
    expect(change({ failing: "c", stuck: "b" })).toEqual([
      "make a",
      "make b",
      'log: Cannot undo "make b": b is stuck',
      "remove a",
      "Error: no c",
    ])
  })

  test("hands the value of a change to its reverse and to the caller", () => {
    const released: number[] = []
    {
      using undo = new Undo(() => {})
      expect(
        undo.step(
          "lease",
          () => 7,
          (lease) => released.push(lease),
        ),
      ).toBe(7)
    }
    expect(released).toEqual([7])
  })

  test("takes everything back once only", () => {
    const events: string[] = []
    const undo = new Undo(() => {})
    undo.step(
      "make",
      () => {},
      () => events.push("remove"),
    )
    undo[Symbol.dispose]()
    undo[Symbol.dispose]()
    expect(events).toEqual(["remove"])
  })
})
