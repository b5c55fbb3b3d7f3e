import { describe, expect, test } from "bun:test"
import { elementListAttributes } from "./attributes.ts"
import { dataTypes } from "./data-types.ts"
import { encodeAhead, encodeOperations, withEncoded } from "./encode.ts"
import { examples, masquerading } from "./examples.fixture.ts"
import { fields } from "./fields.ts"
import { golden } from "./golden.fixture.ts"
import {
  add,
  type Chain,
  create,
  type Element,
  type NamedSet,
  type Operation,
  type Rule,
  remove,
  type Table,
} from "./rule-set.ts"
import { matchSet, verdict } from "./statements.ts"

const NLM_F_REQUEST = 1

/** Returns the type, the flags and the payload of a captured message. */
function message(text: string) {
  const bytes = Uint8Array.fromHex(text.replace(/\s/g, ""))
  const view = new DataView(bytes.buffer)
  expect(view.getUint32(0, true)).toBe(bytes.length)
  return { type: view.getUint16(4, true), flags: view.getUint16(6, true), payload: bytes.slice(16) }
}

describe("a transaction has the bytes that nft makes of the same text", () => {
  for (const name of Object.keys(examples) as (keyof typeof examples)[]) {
    test(name, () => {
      const ours = encodeOperations(examples[name]).map(({ type, flags = 0, payload }) => ({
        type,
        flags: flags | NLM_F_REQUEST,
        payload: new Uint8Array(payload),
      }))
      expect(ours).toEqual(golden[name].map(message))
    })
  }
})

const { containers, networks } = masquerading()
const many: Element[] = Array.from({ length: 5000 }, (_, n) => ({ key: [Uint8Array.of(10, 1, n >> 8, n & 255)] }))

describe("more elements than fit into one list of 65,535 bytes are sent in several, by their bytes", () => {
  const last = Uint8Array.of(10, 2, 0, 0)
  const long = (element: Element) => ({ ...element, comment: "x".repeat(127), note: "n".repeat(121) })
  test.each([
    ["none at all", [], []],
    ["bare: 16 bytes each", many, [4095, 905]],
    ["as many as just fit", many.slice(0, 4095), [4095]],
    ["and one more", many.slice(0, 4096), [4095, 1]],
    ["twice as many", [...many, ...many].slice(0, 8190), [4095, 4095]],
    // 4,094 elements of 16 bytes and one of 28 bytes take 65,532 bytes. With the header that is one byte more than fits
    // into a length of 16 bits.
    ["one of them with a short comment", [...many.slice(0, 4094), { key: [last], comment: "abc" }], [4094, 1]],
    // An element of 16 bytes, the header of the user data, and two entries of 2 bytes each and a text with a NUL: 16 +
    // 4 + 2 + 128 + 2 + 122, padded.
    ["with the longest comments and notes: 276 bytes each", many.slice(0, 600).map(long), [237, 237, 126]],
  ])("%s", (_, elements, expected) => {
    const requests = encodeOperations([add.elements(containers, elements)])
    const lists = requests.map(({ payload }) => elementListAttributes.decode(payload.slice(4)).elements ?? [])
    expect(lists.map(({ length }) => length)).toEqual(expected)
    expect(lists.flat().map(({ key }) => key?.value)).toEqual(elements.flatMap(({ key }) => key))
  })
})

test("a refused request is named as nft would be told it, with a few of its elements", () => {
  const [first] = encodeOperations([remove.elements(containers, many)])
  expect(first?.what).toBe(
    "delete element ip cni_masquerade containers { 10.1.0.0, 10.1.0.1, 10.1.0.2, 10.1.0.3 } and 4091 more",
  )
})

test("four elements are named all, and of five there is one more", () => {
  const what = (count: number) => encodeOperations([remove.elements(containers, many.slice(0, count))])[0]?.what
  const four = "delete element ip cni_masquerade containers { 10.1.0.0, 10.1.0.1, 10.1.0.2, 10.1.0.3 }"
  expect([what(4), what(5)]).toEqual([four, `${four} and 1 more`])
})

test("two sets of one transaction have two numbers, in each place that mentions them", () => {
  const [one, two] = encodeOperations([create.set(containers), create.set(networks)])
  const number = (n: number) => Uint8Array.of(8, 0, 10, 0, 0, 0, 0, n).toHex()
  expect(new Uint8Array(one?.payload ?? []).toHex()).toContain(number(1))
  expect(new Uint8Array(two?.payload ?? []).toHex()).toContain(number(2))
})

describe("what does not fit the set is refused before anything is sent", () => {
  const hosts: NamedSet = { ...containers, value: containers.key }
  test.each([
    ["a key of the wrong size", containers, { key: [new Uint8Array(16)] }, "ipv4_addr has 4 bytes, found 16"],
    ["half a key", networks, { key: [new Uint8Array(4)] }, "expected 2 values, found 1"],
    [
      "a value for a set",
      containers,
      { key: [new Uint8Array(4)], value: [new Uint8Array(4)] },
      "does not take this value",
    ],
    [
      "a value of the wrong size",
      hosts,
      { key: [new Uint8Array(4)], value: [new Uint8Array(2)] },
      "ipv4_addr has 4 bytes, found 2",
    ],
    ["a comment that nft cuts", containers, { key: [new Uint8Array(4)], comment: "x".repeat(128) }, "at most 127"],
  ] as const)("%s", (_, set, element, message) => {
    expect(() => encodeOperations([add.elements(set, [element])])).toThrow(message)
  })
})

describe("objects that are encoded ahead", () => {
  const make = (name: string) => {
    const table: Table = { family: "ip", name }
    const chain: Chain = { table, name: "c" }
    const set: NamedSet = { table, name: "s", key: [dataTypes.ipv4] }
    const rule: Rule = { chain, statements: [matchSet([fields.ipSource], "==", set), verdict("drop")], comment: "r" }
    return [add.table(table), add.chain(chain), add.set(set), add.rule(rule)]
  }
  const encoded = (operations: readonly Operation[]) => withEncoded(operations, encodeAhead(operations))
  /** Returns the messages without the numbers of sets, which differ. */
  const messagesOf = (operations: readonly Operation[]) =>
    encodeOperations(operations).map(({ type, flags, what, payload }) => ({
      type,
      flags,
      what,
      length: payload.length,
    }))

  test("are the messages that they would be, the set by one number in its own and in the rule's", () => {
    const ahead = encoded(make("t"))
    expect(messagesOf(ahead)).toEqual(messagesOf(make("t")))
    const [, , set, rule] = encodeOperations(ahead)
    const number = Uint8Array.of(0, 1, 0) // the upper bytes of 1 << 16 and the byte after them
    const holds = (bytes: Uint8Array = new Uint8Array()) => Buffer.from(bytes).includes(number)
    expect([holds(set?.payload), holds(rule?.payload)]).toEqual([true, true])
  })

  test("can be acknowledged in one transaction and not in the next", () => {
    const ahead = encoded(make("t"))
    const [first] = encodeOperations(ahead)
    if (first) first.flags = 4
    expect(encodeOperations(ahead)[0]?.flags).toBe(0)
  })

  test("are refused when a rule comes before its set", () => {
    const [table, chain, set, rule] = make("t")
    expect(() => encodeAhead([table, chain, rule, set].filter((one) => one !== undefined))).toThrow(
      'the set "s" is used',
    )
  })

  test("are encoded again for other verbs", () => {
    const table: Table = { family: "ip", name: "t" }
    const ahead = encodeAhead([add.table(table)])
    expect(encodeOperations(withEncoded([remove.table(table)], ahead))).toMatchObject([{ type: 0xa02 }])
  })
})
