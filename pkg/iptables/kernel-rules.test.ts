import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { Message, NetlinkSocket } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { type Expression, listRules, printTransaction, tableFamily, type UnknownExpression } from "../nftables/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import { findInKernel, kernelOperations, wordsOf } from "./kernel-rules.ts"

/** Returns the words of the rule in an answer of the kernel, which begins with struct nfgenmsg. */
function wordsIn(family: Family, chain: string, answer: string): string {
  const payload = Uint8Array.fromHex(answer.replace(/\s/g, ""))
  const message: Message = { type: 0, flags: 0, sequence: 0, payload }
  const socket: Pick<NetlinkSocket, "dump"> = { dump: dumping(() => [message]) }
  const [rule] = listRules(socket, { table: { family: tableFamily[family], name: "nat" }, name: chain })
  if (!rule) throw new Error("no rule")
  return wordsOf(family, rule).join(" ")
}

const counter = "2c0001000c000100636f756e746572001c0002000c00010000000000000000000c0002000000000000000000"
/** Returns struct xt_comment_info, which has 256 bytes. */
const comment = (text: string) =>
  "2c0101000a0001006d617463680000001c0102000c000100636f6d6d656e74000800020000000000 04010300" +
  Buffer.from(text).toString("hex").padEnd(512, "0")

// The answers of Linux 6.18 to NFT_MSG_GETRULE, for rules that iptables 1.8.9 added with the expected words.
describe("a rule of iptables-nft has the words of iptables-save:", () => {
  test("a network under a mask, a comment and a verdict", () => {
    const rule = `02000002 080001006e617400 0600020043000000 0c0003000000000000000003 38020400
      340001000c0001007061796c6f6164002400020008000100000000010800020000000001080003000000001008000400000000044c000100
      0c00010062697477697365003c00020008000100000000010800020000000001080003000000000408000600000000000c0004000800
      0100fffff0000c00050008000100000000002c00010008000100636d7000200002000800010000000001080002000000000 00c000300080001
      000a160000 ${comment("a b")} ${counter}
      300001000e000100696d6d6564696174650000001c0002000800010000000000100002000c0002000800010000000001`
    expect(wordsIn(AF_INET, "C", rule)).toBe("-d 10.22.0.0/20 -m comment --comment a b -j ACCEPT")
  })

  test("an address and a network of whole bytes, without a target", () => {
    const rule = `02000002 080001006e617400 0600020043000000 0c0003000000000000000004 1c020400
      340001000c0001007061796c6f6164002400020008000100000000010800020000000001080003000000000c0800040000000004
      2c00010008000100636d700020000200080001000000000108000200000000000c000300080001000a160002
      340001000c0001007061796c6f616400240002000800010000000001080002000000000108000300000000100800040000000002
      2c00010008000100636d700020000200080001000000000108000200000000000c000300060001000a160000
      ${comment("l/c/e")} ${counter}`
    expect(wordsIn(AF_INET, "C", rule)).toBe("-s 10.22.0.2/32 -d 10.22.0.0/16 -m comment --comment l/c/e")
  })

  test("IPv6, not to a network, and a target", () => {
    const rule = `0a000002 080001006e617400 0600020043000000 0c0003000000000000000002 e8000400
      340001000c0001007061796c6f616400240002000800010000000001080002000000000108000300000000180800040000000001
      2c00010008000100636d700020000200080001000000000108000200000000010c00030005000100ff000000 ${counter}
      580001000b0001007461726765740000480002000f0001004d415351554552414445000008000200000000002c000300 ${"00".repeat(40)}`
    expect(wordsIn(AF_INET6, "C", rule)).toBe("! -d ff00::/8 -j MASQUERADE")
  })

  test("an IPv6 address and a jump", () => {
    const rule = `0a000002 080001006e617400 10000200504f5354524f5554494e4700 0c0003000000000000000004 d4000400
      340001000c0001007061796c6f616400240002000800010000000001080002000000000108000300000000080800040000000010
      3800010008000100636d70002c000200080001000000000108000200000000001800030014000100fd000000000000000000000000000002
      ${counter} 380001000e000100696d6d656469617465000000240002000800010000000000180002001400020008000100fffffffd
      0600020043000000`
    expect(wordsIn(AF_INET6, "POSTROUTING", rule)).toBe("-s fd00::2/128 -j C")
  })

  test("what it does not know is there by its name: a protocol, a match, a target", () => {
    const rule = `02000002 080001006e617400 0600020044000000 0c0003000000000000000006 64010400
      24000100090001006d6574610000000014000200080002000000000608000100000000013000010008000100636d70002400020008000100
      0000000108000200000000001000030009000100657468300000000024000100090001006d65746100000000140002000800020000000010
      08000100000000012c00010008000100636d700020000200080001000000000108000200000000000c000300050001001100000060000100
      0a0001006d61746368000000500002000e0001006d756c7469706f72740000000800020000000001340003000102010002000000
      ${"00".repeat(40)} ${counter}
      300001000e000100696d6d6564696174650000001c0002000800010000000000100002000c00020008000100fffffffb`
    expect(wordsIn(AF_INET, "D", rule)).toBe("-i eth0 meta cmp -m multiport -j RETURN")
  })
})

test("a comment beside the rule, as other versions of iptables keep it, is the same", () => {
  expect(wordsOf(AF_INET, { expressions: [], comment: "a b" })).toEqual(["-m", "comment", "--comment", "a b"])
})

test("a rule has words with any bytes in an extension", () => {
  fc.assert(
    fc.property(fc.constantFrom("match", "target", "masq"), fc.uint8Array(), (name, data) => {
      expect(wordsOf(AF_INET, { expressions: [{ name, data }], comment: undefined }).length).toBeGreaterThan(0)
    }),
  )
})

// `enum nft_verdicts`, <linux/netfilter/nf_tables.h>: NFT_JUMP -3, NFT_GOTO -4, NFT_RETURN -5, as a u32; NF_DROP 0,
// NF_ACCEPT 1.
test.each([
  [0xfffffffd, "C", "-j C"],
  [0xfffffffc, "C", "-g C"],
  [0xfffffffb, undefined, "-j RETURN"],
  [0, undefined, "-j DROP"],
  [1, undefined, "-j ACCEPT"],
  [3, undefined, "-j 3"],
])("the verdict %d to %p reads as %s", (code, chain, words) => {
  const expression = { name: "immediate", data: { dreg: 0, data: { verdict: { code, chain } } } } as const
  expect(wordsOf(AF_INET, { expressions: [expression], comment: undefined }).join(" ")).toBe(words)
})

test("a removal takes the rules that lead to chains first, then what is in a chain, then the chain", () => {
  const rules = [{ chain: "POSTROUTING", words: [], handle: 7n }]
  const operations = kernelOperations(AF_INET6, "nat", { rules, chains: ["CNI-a", "CNI-b"] })
  expect(printTransaction(operations).trim().split("\n")).toEqual([
    "delete rule ip6 nat POSTROUTING handle 7",
    "flush chain ip6 nat CNI-a",
    "delete chain ip6 nat CNI-a",
    "flush chain ip6 nat CNI-b",
    "delete chain ip6 nat CNI-b",
  ])
})

describe("of expressions that iptables-nft makes", () => {
  const words = (...expressions: (Expression | UnknownExpression)[]) =>
    wordsOf(AF_INET, { expressions, comment: undefined }).join(" ")
  const meta = (key: number): Expression => ({ name: "meta", data: { dreg: 1, key } })
  const load = (base: number, offset: number, length: number): Expression => ({
    name: "payload",
    data: { dreg: 1, base, offset, length },
  })
  const compare = (op: number, value: Uint8Array): Expression => ({
    name: "cmp",
    data: { sreg: 1, op, data: { value } },
  })
  const under = (...mask: number[]): Expression => ({
    name: "bitwise",
    data: { sreg: 1, dreg: 1, length: 4, mask: { value: Uint8Array.from(mask) } },
  })
  const text = (name: string) => new TextEncoder().encode(name)

  // NFT_META_IIFNAME 6 and NFT_META_OIFNAME 7, NFT_CMP_NEQ 1; <linux/netfilter/nf_tables.h>. A name without a NUL is a
  // prefix.
  test.each([
    [6, 0, "eth0\0\0\0", "-i eth0"],
    [7, 0, "eth0\0", "-o eth0"],
    [6, 1, "eth0\0", "! -i eth0"],
    [7, 0, "eth", "-o eth+"],
  ])("meta %d compared (%d) with %j is %s", (key, op, name, expected) => {
    expect(words(meta(key), compare(op, text(name)))).toBe(expected)
  })

  // NFT_PAYLOAD_NETWORK_HEADER 1. In struct iphdr the source is at offset 12, the destination at 16.
  test.each([
    [12, [255, 255, 255, 255], [10, 1, 0, 2], "-s 10.1.0.2/32"],
    [16, [255, 255, 240, 0], [10, 1, 0, 0], "-d 10.1.0.0/20"],
    [12, [128, 0, 0, 0], [128, 0, 0, 0], "-s 128.0.0.0/1"],
    [16, [0, 0, 0, 0], [0, 0, 0, 0], "-d 0.0.0.0/0"],
  ])("the address at %d under %j compared with %j is %s", (offset, mask, value, expected) => {
    expect(words(load(1, offset, 4), under(...mask), compare(0, Uint8Array.from(value)))).toBe(expected)
  })

  test("what is loaded is compared once, and from elsewhere in the packet it is not an address", () => {
    const address = compare(0, Uint8Array.of(10, 1, 0, 2))
    expect(words(load(1, 12, 4), address, address)).toBe("-s 10.1.0.2/32 cmp")
    expect(words(load(1, 12, 1), compare(0, Uint8Array.of(10)))).toBe("-s 10.0.0.0/8")
    for (const other of [load(2, 12, 4), load(0, 12, 4), load(1, 13, 4)]) expect(words(other, address)).toBe("cmp")
    expect(words(load(1, 12, 4), { name: "cmp", data: { sreg: 1, op: 0 } })).toBe("cmp")
    expect(words(address)).toBe("cmp")
    expect(words(meta(16), compare(0, Uint8Array.of(6)))).toBe("meta cmp")
  })

  test("counters are not told, and masq is a target", () => {
    expect(words({ name: "counter", data: { bytes: 1n, packets: 1n } }, { name: "masq", data: {} })).toBe(
      "-j MASQUERADE",
    )
  })

  const found = (name: string, hex: string) => words({ name, data: Uint8Array.fromHex(hex.replace(/\s/g, "")) })

  // NFTA_MATCH_NAME and NFTA_TARGET_NAME 1, NFTA_MATCH_INFO 3
  test.each([
    ["match", "0800 0100 6d616300", "-m mac"],
    ["target", "0900 0100 534e415400 000000", "-j SNAT"],
    ["match", "", "-m match"],
    ["target", "", "-j target"],
    ["match", "0c00 0100 636f6d6d656e7400 0600 0300 6162 0000", "-m comment --comment ab"],
    ["match", "0c00 0100 636f6d6d656e7400", "-m comment --comment "],
    ["limit", "0800 0100 6d616300", "limit"],
  ])("the extension %s of %s is %s", (name, hex, expected) => {
    expect(found(name, hex)).toBe(expected)
  })
})

describe("a search in the kernel", () => {
  const search = { chains: /^CNI-/, parents: ["POSTROUTING"] }
  const empty = { chains: [], rules: [] }

  test("finds nothing where no chain is, and asks for no rules then", () => {
    const asked: number[] = []
    const dump: NetlinkSocket["dump"] = ({ type }) => {
      asked.push(type)
      return []
    }
    expect(findInKernel({ dump } as NetlinkSocket, AF_INET, "nat", search)).toEqual(empty)
    expect(asked).toHaveLength(1)
  })
})
