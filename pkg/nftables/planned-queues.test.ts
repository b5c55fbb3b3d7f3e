import { describe, expect, test } from "bun:test"
import { dataTypes } from "./data-types.ts"
import { KeyQueues, sharedSet } from "./key-queues.ts"
import { PlannedQueues, type Standing } from "./planned-queues.ts"
import type { Element } from "./rule-set.ts"

const set = sharedSet({
  table: { family: "ip", name: "t" },
  name: "ports",
  key: [dataTypes.port],
  value: [dataTypes.port],
})
const port = (number: number) => Uint8Array.of(number >> 8, number & 0xff)
const element = (number: number, comment: string, to = 80): Element => ({
  key: [port(number)],
  value: [port(to)],
  comment,
})

function emptyTable(): PlannedQueues {
  const socket = { get: () => undefined, dump: () => [] } as never
  return new PlannedQueues(socket, new KeyQueues(socket))
}

const share = (): Standing => "shares"

describe("what is claimed", () => {
  test("is missing where nothing is, and there when it is claimed again", () => {
    const queues = emptyTable()
    expect(queues.claim(set, element(8080, "a"), share)).toBe("missing")
    expect(queues.claim(set, element(8080, "a"), share)).toBe("there")
    expect(queues.changes.created).toEqual([{ set, elements: [element(8080, "a")] }])
  })

  test("stands by behind what was claimed first, in its order", () => {
    const queues = emptyTable()
    for (const owner of ["a", "b", "c"]) queues.claim(set, element(8080, owner), share)
    const [inForce, standby] = queues.changes.created
    expect(inForce).toEqual({ set, elements: [element(8080, "a")] })
    expect(standby?.set).toBe(set.standby)
    expect(standby?.elements.map(({ comment, key }) => [comment, key[1]])).toEqual([
      ["b", port(1)],
      ["c", port(2)],
    ])
  })

  test("is refused where another one holds the key, and changes nothing", () => {
    const queues = emptyTable()
    queues.claim(set, element(8080, "a"), share)
    expect(queues.claim(set, element(8080, "b"), () => "holds")).toEqual({ holder: element(8080, "a") })
    expect(queues.changes.created).toEqual([{ set, elements: [element(8080, "a")] }])
  })

  test("takes the place of what is stale, and of its own with another value", () => {
    const queues = emptyTable()
    queues.claim(set, element(8080, "gone"), share)
    expect(queues.claim(set, element(8080, "a"), () => "stale")).toBe("missing")
    expect(queues.claim(set, element(8080, "a", 81), share)).toBe("missing")
    expect(queues.changes.created).toEqual([{ set, elements: [element(8080, "a", 81)] }])
  })
})
