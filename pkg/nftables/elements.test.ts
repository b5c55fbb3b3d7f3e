import { expect, test } from "bun:test"
import type { Message, Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { dataTypes } from "./data-types.ts"
import { findElement, findElements, getElement, sampleElements } from "./elements.ts"
import { masquerading } from "./examples.fixture.ts"
import { goldenPolicies } from "./golden-policies.fixture.ts"
import type { NamedSet } from "./rule-set.ts"
import { readVerdict, verdictData } from "./statements.ts"
import { RuleSetKernel } from "./testing/rule-set-kernel.ts"
import { answer } from "./testing.ts"

const { ifname, ipv4, port, protocol } = dataTypes
const table = { family: "ip", name: "t" } as const
const ports: NamedSet = { table, name: "ports", key: [protocol, port], value: [ipv4, port] }
const tcp8080 = [Uint8Array.of(6), Uint8Array.of(0x1f, 0x90)]

function kernel(...texts: string[]) {
  const asked: Request[] = []
  const answers = texts.map(answer)
  const reply = (request: Request) => {
    asked.push(request)
    return answers
  }
  return {
    asked,
    get: <T>(request: Request, read: (message: Message) => T) => read(reply(request)[0] ?? answer("")),
    dump: dumping(reply),
  }
}

const { networks } = masquerading()

// The answers of Linux 6.18 to `nft list ruleset` after the examples, captured by `strace -e read=3`.
const networksAnswer = `02000002
  13000100636e695f6d6173717565726164650000100002006e6574776f726b735f3136002c0003002800010010000100
  0c0001000a0100020a01000012000600000c6e65742f63312f65746830000000`
const endAnswer = "02000002 13000100636e695f6d6173717565726164650000100002006e6574776f726b735f31360004000300"
test("the elements of a set are read as they were given", () => {
  const element = {
    key: [Uint8Array.of(10, 1, 0, 2), Uint8Array.of(10, 1, 0, 0)],
    comment: "net/c1/eth0",
  }
  expect(findElements(kernel(networksAnswer, endAnswer), networks)).toEqual({ count: 1, elements: [element] })
})

test("elements without the needle are counted, and not read", () => {
  const socket = kernel(networksAnswer)
  const needle = (text: string) => [new TextEncoder().encode(text)]
  expect(findElements(socket, networks, needle("net/c2/"))).toEqual({ count: 1, elements: [] })
  expect(findElements(socket, networks, needle("net/c1/"))?.elements).toHaveLength(1)
  expect(findElements(socket, networks, [Uint8Array.of(10, 1, 0, 2)])?.elements).toHaveLength(1)
})

// The payload of an answer of Linux 6.18. The user data contains a comment, and a note of type 200.
const element = `02000002
  0600 0100 74000000 0a00 0200 706f727473000000
  4400 0300 4000 0100
    1000 0100 0c00 0100 06000000 1f900000
    1000 0200 0c00 0100 0a010002 00500000
    1a00 0600 000c 6e65742f63312f6574683000 c806 3209096e7300 0000`

test("an element is asked for by its key, and read with its comment and what is kept beside it", () => {
  const socket = kernel(element)
  expect(getElement(socket, ports, tcp8080)).toEqual({
    key: tcp8080,
    value: [Uint8Array.of(10, 1, 0, 2), Uint8Array.of(0, 80)],
    comment: "net/c1/eth0",
    note: "2\t\tns",
  })
  // The attributes that nft 1.0.6 sends for `nft get element ip t ports { tcp . 8080 }`, with the table's name first.
  expect(socket.asked[0]).toMatchObject({ type: 0xa0d })
  expect(socket.asked[0]?.payload).toEqual(
    answer(
      "02000000 0600 0100 74000000 0a00 0200 706f727473000000 1800 0380 1400 0180 1000 0180 0c00 0100 06000000 1f900000",
    ).payload,
  )
})

test("a sample counts the elements and those with the very comment", () => {
  const sample = (comment: string) => sampleElements(kernel(element), ports, comment)
  expect(sample("net/c1/eth0")).toEqual({ count: 1, commented: 1 })
  expect(sample("net/c1/eth")).toEqual({ count: 1, commented: 0 })
  expect(sample("et/c1/eth0")).toEqual({ count: 1, commented: 0 })
})

test("malformed elements are found while the socket reads the answer, which makes them an error of the request", () => {
  // struct nfgenmsg, then NFTA_SET_ELEM_LIST_ELEMENTS with an element whose length exceeds the list.
  const malformed = kernel("02000002 0c00 0380 ff00 0180 00000000")
  let found = 0
  const get: typeof malformed.get = (request, read) =>
    malformed.get(request, (message) => {
      try {
        return read(message)
      } catch (error) {
        found++
        throw error
      }
    })
  expect(() => sampleElements({ get }, ports, "x")).toThrow("attribute at byte 0")
  expect(() => findElement({ ...malformed, get }, ports, new Uint8Array(0), () => true)).toThrow("attribute at byte 0")
  expect(found).toBe(2)
})

// The elements of the example of verdict maps, as nft sends them. The kernel's answer has the same attributes.
test("the values of a verdict map are read as they were given", () => {
  const within = {
    table: { family: "inet", name: "fw" },
    name: "within",
    key: [ifname, ifname],
    verdicts: true,
  } as const
  const sent = goldenPolicies.filter((text) => text.replace(/\s/g, "").slice(8, 12) === "0c0a") // NFT_MSG_NEWSETELEM
  const dump = dumping(() => sent.map((text) => answer(text.replace(/\s/g, "").slice(32))))
  expect(findElements({ dump }, within)?.elements.map(({ verdict, comment }) => ({ verdict, comment }))).toEqual([
    { verdict: "drop", comment: "net/c1/eth0" },
    { verdict: { goto: "allow" }, comment: undefined },
  ])
  const verdicts = ["accept", "drop", "return", { jump: "x" }, { goto: "x" }] as const
  expect(verdicts.map((verdict) => readVerdict(verdictData(verdict)))).toEqual([...verdicts])
  expect(readVerdict({ verdict: { code: 99 } })).toBeUndefined()
})

test("an element is sought among those that have the needle in their bytes, and the first is taken", () => {
  const set = { table, name: "s", key: [ipv4] }
  const element = (last: number, comment: string) => ({ key: [Uint8Array.of(10, 1, 0, last)], comment })
  const elements = [element(1, "net1/c1"), element(2, "net1/c2"), element(3, "net1/c22")]
  const { socket } = new RuleSetKernel({ sets: [{ set, elements }] })
  const needle = new TextEncoder().encode("/c2")
  expect(findElement(socket, set, needle, () => true)?.comment).toBe("net1/c2")
  expect(findElement(socket, set, needle, ({ comment }) => comment === "net1/c22")?.comment).toBe("net1/c22")
  expect(findElement(socket, set, needle, () => false)).toBeUndefined()
  expect(findElement(socket, set, new TextEncoder().encode("/c3"), () => true)).toBeUndefined()
})

test("of a list no more is read than its beginning, where the element is in it or the list is short", () => {
  const set = { table, name: "s", key: [ipv4] }
  const find = (count: number, at: number) => {
    const elements = Array.from({ length: count }, (_, n) => ({ key: [Uint8Array.of(10, 1, 0, n)], comment: `c${n}` }))
    const kernel = new RuleSetKernel({ sets: [{ set, elements }] })
    const isSought = ({ comment }: { comment?: string | undefined }) => comment === `c${at}`
    return [findElement(kernel.socket, set, new Uint8Array(0), isSought)?.comment, kernel.asked]
  }
  expect(find(30, 9)).toEqual(["c9", ["look at ip s"]])
  expect(find(30, 10)).toEqual(["c10", ["look at ip s", "list ip s"]])
  expect(find(30, 30)).toEqual([undefined, ["look at ip s", "list ip s"]])
  expect(find(9, 9)).toEqual([undefined, ["look at ip s"]])
})
