import { expect, test } from "bun:test"
import { dataTypes } from "./data-types.ts"
import { membersOf, QueueChanges, sharedSet } from "./key-queues.ts"
import type { Element } from "./rule-set.ts"

const table = { family: "ip", name: "t" } as const
const set = sharedSet({ table, name: "ports", key: [dataTypes.port] } as never)
const key = [Uint8Array.of(0, 80)]
const element = (comment: string): Element => ({ key, comment })
const [a, b, c] = ["n/a/eth0", "n/b/eth0", "n/c/eth0"].map(element) as [Element, Element, Element]

test("those that stand by are in a set of its own, by key and turn", () => {
  expect(set.standby.name).toBe("ports_standby")
  expect(set.standby.comment).toBe("waiting for ports")
  expect(set.standby.key).toEqual([dataTypes.port, dataTypes.port])
})

test("the element that stood by next comes into force when the first is removed, with any number of others behind it", () => {
  const changes = new QueueChanges()
  changes.change({ set, key, members: [a, b, c] }, [b, c])
  expect(changes.promoted).toEqual([{ set, element: b }])
  const places = (groups: typeof changes.removed) =>
    groups.map((group) => [
      group.set.name,
      group.elements.map(({ key, comment }) => [key.map((part) => part.toHex()), comment]),
    ])
  expect(places(changes.removed)).toEqual([
    ["ports", [[["0050"], a.comment]]],
    [
      "ports_standby",
      [
        [["0050", "0001"], b.comment],
        [["0050", "0002"], c.comment],
      ],
    ],
  ])
  expect(places(changes.created)).toEqual([
    ["ports", [[["0050"], b.comment]]],
    ["ports_standby", [[["0050", "0001"], c.comment]]],
  ])
})

test("a newcomer who takes a free place was not waiting, and nothing changes for one who stays", () => {
  const changes = new QueueChanges()
  changes.change({ set, key, members: [undefined] }, [a])
  changes.change({ set, key: [Uint8Array.of(0, 81)], members: [b, c] }, [b, c])
  expect(changes.promoted).toEqual([])
  expect(changes.removed).toEqual([])
  expect(changes.created.map(({ elements }) => elements.length)).toEqual([1])
  expect(membersOf({ set, key, members: [undefined, b] })).toEqual([b])
})
