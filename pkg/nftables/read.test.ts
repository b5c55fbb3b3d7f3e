import { expect, test } from "bun:test"
import { type Message, NetlinkError } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { examples } from "./examples.fixture.ts"
import { masqueradeLayout, networksOf } from "./masquerade-layout.ts"
import { findElements, listRules } from "./read.ts"
import type { NamedSet } from "./rule-set.ts"

/** A kernel whose every list is made of these messages, from their struct nfgenmsg on. */
function listing(...payloads: string[]) {
  const messages = payloads.map((text): Message => {
    const payload = Uint8Array.fromHex(text.replace(/\s/g, ""))
    return { type: 0, flags: 0, sequence: 0, port: 0, payload }
  })
  return { dump: dumping(() => messages) }
}

function refusing(errno: string) {
  return {
    dump(): never {
      throw new NetlinkError("list", errno)
    },
  }
}

const layout = masqueradeLayout("ip")
const { chain, containers } = layout
const { set: networks, rule } = networksOf(layout, 16)

// The answers of Linux 6.18 to `nft list ruleset` with the examples in place, seen by `strace -e read=3`.
const ruleAnswer = `02000002
  13000100636e695f6d617371756572616465000010000200706f7374726f7574696e67000c0003000000000000000004
  1c010400340001000c0001007061796c6f6164002400020008000100000000010800020000000001080003000000000c
  0800040000000004340001000c0001007061796c6f616400240002000800010000000009080002000000000108000300
  0000001008000400000000044c0001000c00010062697477697365003c00020008000100000000090800020000000009
  080003000000000408000600000000000c00040008000100ffff00000c0005000800010000000000340001000b000100
  6c6f6f6b7570000024000200100001006e6574776f726b735f3136000800020000000001080005000000000030000100
  0e000100696d6d6564696174650000001c0002000800010000000000100002000c00020008000100fffffffb1e000700
  0018746f20697473206f776e206e6574776f726b2c202f3136000000`
const networksAnswer = `02000002
  13000100636e695f6d6173717565726164650000100002006e6574776f726b735f3136002c0003002800010010000100
  0c0001000a0100020a01000012000600000c6e65742f63312f65746830000000`
const endAnswer = "02000002 13000100636e695f6d6173717565726164650000100002006e6574776f726b735f31360004000300"
const linksAnswer = `020038eb
  06000100740000000a0002006c696e6b730000007c0003004c0001001800010014000100766574683000000000000000
  000000001c0002001800020008000100fffffffd0a000200656e74727900000012000600000c6e65742f63312f657468
  300000002c000100180001001400010076657468310000000000000000000000100002000c0002000800010000000000`

test("a rule is read with its handle, its comment and its expressions", () => {
  const [found, ...more] = listRules(listing(ruleAnswer), chain)
  expect(more).toEqual([])
  expect(found).toMatchObject({ chain, handle: 4n, comment: rule.comment ?? "" })
  expect(found?.expressions.map(({ name }) => name).join(" ")).toBe("payload payload bitwise lookup immediate")
  expect(found?.expressions.at(-2)).toEqual({ name: "lookup", data: { sreg: 1, set: "networks_16", flags: 0 } })
})

test("a rule of another chain, which old kernels list too, is left out", () => {
  expect(listRules(listing(ruleAnswer), { ...chain, name: "other" })).toEqual([])
})

test("the elements of a set are read as they were given", () => {
  const element = {
    key: [Uint8Array.of(10, 1, 0, 2), Uint8Array.of(10, 1, 0, 0)],
    comment: "net/c1/eth0",
  }
  expect(findElements(listing(networksAnswer, endAnswer), networks)).toEqual({ count: 1, elements: [element] })
})

test("the verdicts of a map are read as they were given", () => {
  const links = examples["port mapping"].flatMap((operation): NamedSet[] =>
    operation.object === "set" && operation.set.value === "verdict" ? [operation.set] : [],
  )
  const [map = containers] = links
  const found = findElements(listing(linksAnswer), map)
  expect(found?.elements.map(({ value, comment }) => ({ value, comment }))).toEqual([
    { value: { jump: "entry" }, comment: "net/c1/eth0" },
    { value: "drop", comment: undefined },
  ])
})

test("elements without the needle are counted, and not read", () => {
  const socket = listing(networksAnswer)
  const needle = (text: string) => [new TextEncoder().encode(text)]
  expect(findElements(socket, networks, needle("net/c2/"))).toEqual({ count: 1, elements: [] })
  expect(findElements(socket, networks, needle("net/c1/"))?.elements).toHaveLength(1)
  expect(findElements(socket, networks, [Uint8Array.of(10, 1, 0, 2)])?.elements).toHaveLength(1)
})

test("what is not there has no rules and no elements; another refusal is an error", () => {
  expect(listRules(refusing("ENOENT"), chain)).toEqual([])
  expect(findElements(refusing("ENOENT"), containers)).toBeUndefined()
  expect(() => listRules(refusing("EPERM"), chain)).toThrow("EPERM")
})
