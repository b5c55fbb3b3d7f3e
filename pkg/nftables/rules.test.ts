import { expect, test } from "bun:test"
import type { Message } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { masquerading } from "./examples.fixture.ts"
import { hasRules, hasRulesEvenIfDormant, listCommented, listComments, listRules } from "./rules.ts"
import { answer } from "./testing.ts"

const { table, chain, toNetwork } = masquerading()

function listing(payload: string) {
  return { dump: dumping(() => [answer(payload)]) }
}

// The answer of Linux 6.18 to `nft list ruleset` after the examples, captured by `strace -e read=3`.
const ruleAnswer = `02000002
  13000100636e695f6d617371756572616465000010000200706f7374726f7574696e67000c0003000000000000000004
  1c010400340001000c0001007061796c6f6164002400020008000100000000010800020000000001080003000000000c
  0800040000000004340001000c0001007061796c6f616400240002000800010000000009080002000000000108000300
  0000001008000400000000044c0001000c00010062697477697365003c00020008000100000000090800020000000009
  080003000000000408000600000000000c00040008000100ffff00000c0005000800010000000000340001000b000100
  6c6f6f6b7570000024000200100001006e6574776f726b735f3136000800020000000001080005000000000030000100
  0e000100696d6d6564696174650000001c0002000800010000000000100002000c00020008000100fffffffb1e000700
  0018746f20697473206f776e206e6574776f726b2c202f3136000000`

test("a rule is read with its handle, its comment and its expressions", () => {
  const [found, ...more] = listRules(listing(ruleAnswer), chain)
  expect(more).toEqual([])
  expect(found).toMatchObject({ chain: { table, name: chain.name }, handle: 4n, comment: toNetwork.comment ?? "" })
  expect(found?.expressions.map(({ name }) => name).join(" ")).toBe("payload payload bitwise lookup immediate")
  expect(found?.expressions.at(-2)).toEqual({ name: "lookup", data: { sreg: 1, set: "networks_16", flags: 0 } })
})

test("a rule of another chain, which old kernels list too, is left out", () => {
  expect(listRules(listing(ruleAnswer), { ...chain, name: "other" })).toEqual([])
})

test("the comments of rules are read without the rules, of a chain or of the whole table", () => {
  const { comment } = toNetwork
  expect(listComments(listing(ruleAnswer), table)).toEqual([{ chain: "postrouting", comment }])
  expect(listComments(listing(ruleAnswer), table, "postrouting")).toEqual([{ chain: "postrouting", comment }])
  expect(listComments(listing(ruleAnswer), table, "other")).toEqual([])
  expect(listComments(listing(ruleAnswer), { ...table, name: "other" })).toEqual([])
})

test("rules are known to be there by their comments, each whole", () => {
  const t = { family: "ip", name: "t" } as const
  const rule = "02000000 0600 0100 74000000 0600 0200 63000000 0c00 0700 0006 7468656e00 000000"
  const kernel = (flags: string) => ({
    ...listing(rule),
    get: <T>(_: unknown, read: (message: Message) => T) => read(answer(`02000000 0600010074000000 08000200${flags}`)),
  })
  const awake = kernel("00000000")
  expect(hasRules(awake, t, [{ comment: "then" }])).toBe(true)
  expect(hasRules(awake, t, [{ comment: "the" }])).toBe(false)
  expect(hasRules(awake, t, [{ comment: "then" }, { comment: "again" }])).toBe(false)
  expect(hasRules(awake, { family: "ip", name: "other" }, [{ comment: "then" }])).toBe(false)
  expect(hasRules(awake, t, [])).toBe(true)
  expect(hasRules(kernel("00000001"), t, [{ comment: "then" }])).toBe(false) // dormant: no packet traverses the rules
  expect(hasRulesEvenIfDormant(kernel("00000001"), t, [{ comment: "then" }])).toBe(true)
  // NFTNL_UDATA_RULE_EBTABLES_POLICY follows the comment.
  const longer = "02000000 0600 0100 74000000 0600 0200 63000000 1100 0700 0005 7468656e00 0104 00000001 000000"
  expect(hasRulesEvenIfDormant(listing(longer), t, [{ comment: "then" }])).toBe(true)
  expect(hasRulesEvenIfDormant(listing(longer), t, [{ comment: "then" }, { comment: "other" }])).toBe(false)
})

test("the rules of a table are told with their chains; rules of another table, or without a chain, are left out", () => {
  const [found, ...more] = listRules(listing(ruleAnswer), { table })
  expect(more).toEqual([])
  expect(found).toMatchObject({ chain: { table, name: "postrouting" }, handle: 4n, comment: toNetwork.comment ?? "" })
  expect(found?.expressions).toHaveLength(5)
  expect(listRules(listing(ruleAnswer), { table: { ...table, name: "other" } })).toEqual([])
  const t = { family: "ip", name: "t" } as const
  expect(listRules(listing("02000000 0600 0100 74000000"), { table: t })).toEqual([])
  const bare = { chain: { table: t, name: "c" }, handle: 0n, expressions: [], comment: undefined }
  expect(listRules(listing("02000000 0600 0100 74000000 0600 0200 63000000"), { table: t })).toEqual([bare])
})

// NFT_MSG_GETTABLE, NFT_MSG_GETRULE, NFT_MSG_GETSET and NFT_MSG_GETSETELEM: tables "t" and "u", each with a rule and an
// element.
test("comments are sought in the rules and the elements of all tables, or of those that are wanted", () => {
  const name = (letter: string) => `0600 0100 ${Buffer.from(letter).toString("hex")}000000`
  const read: string[] = []
  const dump = dumping(({ type, payload }) => {
    const letter = String.fromCharCode(payload[8] ?? 0)
    if (type !== 0xa01) read.push(letter)
    if (type === 0xa01) return [answer(`02000000 ${name("t")}`), answer(`02000000 ${name("u")}`)]
    if (type === 0xa0a) return [answer(`02000000 ${name(letter)} 0600 0200 73000000`)]
    if (type === 0xa07)
      return [
        answer(`02000000 ${name(letter)} 0600 0200 63000000 0a00 0700 0004 6f757200 0000`),
        answer(`02000000 ${name(letter)} 0600 0200 63000000`),
      ]
    return [answer(`02000000 ${name(letter)} 0600 0200 73000000 1000 0380 0c00 0180 0800 0680 0002 6f00`)]
  })
  const place = (letter: string, name: string) => ({ table: { family: "ip", name: letter }, name })
  expect(listCommented({ dump }, () => true)).toEqual({
    rules: ["t", "u"].map((letter) => ({ ...place(letter, "c"), comment: "our" })),
    elements: ["t", "u"].map((letter) => ({ ...place(letter, "s"), comment: "o" })),
  } as never)
  expect(read.splice(0).sort()).toEqual(["t", "t", "t", "u", "u", "u"])
  expect(
    listCommented(
      { dump },
      (comment) => comment === "our",
      ({ name }) => name === "u",
    ),
  ).toEqual({
    rules: [{ ...place("u", "c"), comment: "our" }],
    elements: [],
  } as never)
  expect(new Set(read)).toEqual(new Set(["u"]))
})

// NFTA_RULE_EXPRESSIONS 4 with several NFTA_LIST_ELEM 1, each of which contains NFTA_EXPR_NAME 1 or nothing.
test("an expression without data, or without a name, says nothing", () => {
  const t = { family: "ip", name: "t" } as const
  const elements = "0c00 0100 0600 0100 7800 0000  0400 0100  1000 0100 0c00 0100 636f756e74657200"
  const rule = `02000000 0600 0100 74000000 0600 0200 63000000 2400 0400 ${elements}`
  expect(listRules(listing(rule), { table: t, name: "c" })[0]?.expressions as unknown).toEqual([
    { name: "x", data: new Uint8Array(0) },
    { name: "", data: new Uint8Array(0) },
    { name: "counter", data: {} },
  ])
})
