import { describe, expect, test } from "bun:test"
import { extensionAttributes, type FoundRule } from "../../pkg/nftables/mod.ts"
import { evaluate, type HasElement, type Packet } from "./evaluate.ts"

const packet: Packet = {
  source: Uint8Array.of(10, 1, 0, 2),
  destination: Uint8Array.of(192, 0, 2, 1),
  protocol: 6,
  destinationPort: 8080,
  input: "br0",
  output: "eth0",
  isLocal: false,
  isMapped: false,
}
const six: Packet = { ...packet, source: new Uint8Array(16).fill(1), destination: new Uint8Array(16).fill(2) }

type Part = readonly [name: string, data: object]

/** What a rule of these expressions does; their numbers are those of <linux/netfilter/nf_tables.h>. */
function evaluated(parts: readonly Part[], of: Packet = packet, hasElement: HasElement = () => undefined) {
  const expressions = parts.map(([name, data]) => ({ name, data }))
  return evaluate({ expressions } as unknown as FoundRule, of, hasElement)
}

const accept: Part = ["immediate", { dreg: 0, data: { verdict: { code: 1 } } }]
const [saddr, daddr]: Part[] = [12, 16].map((offset) => ["payload", { dreg: 1, base: 1, offset, length: 4 }] as const)
const cmp = (op: number, ...value: number[]): Part => ["cmp", { sreg: 1, op, data: { value: Uint8Array.from(value) } }]
const matches = (parts: (Part | undefined)[], of?: Packet) =>
  evaluated([...parts.filter((part) => part !== undefined), accept], of).matches

describe("comparisons", () => {
  // NFT_CMP_EQ, NEQ, LT, LTE, GT, GTE, against an address that is less, the same, or greater
  test.each([
    [0, ["no", "yes", "no"]],
    [1, ["yes", "no", "yes"]],
    [2, ["no", "no", "yes"]],
    [3, ["no", "yes", "yes"]],
    [4, ["yes", "no", "no"]],
    [5, ["yes", "yes", "no"]],
  ] as const)("number %d", (op, expected) => {
    const found = [1, 2, 3].map((last) => matches([saddr, cmp(op, 10, 1, 0, last)]))
    expect(found).toEqual([...expected])
  })

  test("are of the bytes that are given, of either address and family", () => {
    expect(matches([daddr, cmp(0, 192, 0, 2, 1)])).toBe("yes")
    expect(matches([saddr, cmp(0, 10, 1)])).toBe("yes")
    const at = (offset: number): Part => ["payload", { dreg: 1, base: 1, offset, length: 16 }]
    expect(matches([at(8), cmp(0, ...six.source)], six)).toBe("yes")
    expect(matches([at(24), cmp(0, ...six.destination)], six)).toBe("yes")
  })

  test("of a prefix go by its mask; of other bytes nothing is sure", () => {
    const mask: Part = [
      "bitwise",
      {
        sreg: 1,
        dreg: 1,
        length: 4,
        mask: { value: Uint8Array.of(255, 0, 0, 0) },
        xor: { value: Uint8Array.of(1, 0, 0, 0) },
      },
    ]
    expect(matches([saddr, mask, cmp(0, 11, 0, 0, 0)])).toBe("yes")
    expect(matches([saddr, mask, cmp(0, 10, 0, 0, 0)])).toBe("no")
    const length: Part = ["payload", { dreg: 1, base: 1, offset: 2, length: 2 }]
    expect(matches([length, cmp(0, 0, 0)])).toBe("perhaps")
    expect(matches([length, mask, cmp(0, 0, 0)])).toBe("perhaps")
    expect(matches([length, saddr, cmp(0, 10, 1, 0, 2)])).toBe("yes")
  })
})

describe("of a packet are known", () => {
  const port: Part = ["payload", { dreg: 1, base: 2, offset: 2, length: 2 }]
  const meta = (key: number): Part => ["meta", { dreg: 1, key }]
  const ct = (key: number): Part => ["ct", { dreg: 1, key }]
  // `fib daddr type`; NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR
  const fib: Part = ["fib", { dreg: 1, result: 3, flags: 2 }]
  const name = (text: string) => [...new TextEncoder().encode(text.padEnd(16, "\0"))]
  test.each<[string, Part, number[]]>([
    ["the port that it goes to", port, [0x1f, 0x90]],
    ["its protocol", ["payload", { dreg: 1, base: 1, offset: 9, length: 1 }], [6]],
    ["its protocol, by meta", meta(16), [6]],
    ["its family", meta(15), [2]],
    ["where it comes in", meta(6), name("br0")],
    ["where it goes out", meta(7), name("eth0")],
    ["that it has no mark", meta(3), [0, 0, 0, 0]],
    ["that it begins a connection", ct(0), [8, 0, 0, 0]],
    ["its direction", ct(1), [0]],
    ["that it was not mapped", ct(2), [0, 0, 0, 0]],
    ["that it is not for the host", fib, [1, 0, 0, 0]],
  ])("%s", (_, load, value) => {
    expect(matches([load, cmp(0, ...value)])).toBe("yes")
    expect(matches([load, cmp(1, ...value)])).toBe("no")
  })

  test("that it was mapped, or is for the host; and of IPv6 family and protocol", () => {
    expect(matches([ct(2), cmp(0, 32, 0, 0, 0)], { ...packet, isMapped: true })).toBe("yes")
    expect(matches([fib, cmp(0, 2, 0, 0, 0)], { ...packet, isLocal: true })).toBe("yes")
    expect(matches([meta(15), cmp(0, 10)], six)).toBe("yes")
    expect(matches([["payload", { dreg: 1, base: 1, offset: 6, length: 1 }], cmp(0, 6)], six)).toBe("yes")
  })

  test.each<[string, Part]>([
    ["the port that it comes from", ["payload", { dreg: 1, base: 2, offset: 0, length: 2 }]],
    ["its link layer", ["payload", { dreg: 1, base: 0, offset: 0, length: 6 }]],
    ["its user", meta(10)],
    ["its connection's mark", ct(3)],
    ["the way back", ["fib", { dreg: 1, result: 1, flags: 1 }]],
    ["by which interface it would go, `fib daddr oif`", ["fib", { dreg: 1, result: 1, flags: 2 }]],
    ["whether it comes from the host, `fib saddr type`", ["fib", { dreg: 1, result: 3, flags: 1 }]],
  ])("not %s", (_, load) => {
    expect(matches([load, cmp(0, 0, 0)])).toBe("perhaps")
  })
})

describe("sets", () => {
  const lookup = (flags = 0): Part => ["lookup", { set: "s", sreg: 1, flags }]
  test.each([
    [true, 0, "yes"],
    [false, 0, "no"],
    [undefined, 0, "perhaps"],
    [true, 1, "no"],
    [false, 1, "yes"],
  ] as const)("that have the key %p, with flags %d: %s", (has, flags, expected) => {
    const asked: string[] = []
    const answer = evaluated([saddr as Part, lookup(flags), accept], packet, (set, key) => {
      asked.push(`${set} ${key.subarray(0, 4).join(".")}`)
      return has
    })
    expect(answer.matches).toBe(expected)
    expect(asked).toEqual(["s 10.1.0.2"])
  })

  test("of what is not known are not asked, and what a map leads to is not known", () => {
    const unknown: Part = ["meta", { dreg: 1, key: 10 }]
    expect(evaluated([unknown, lookup(), accept], packet, () => expect.unreachable()).matches).toBe("perhaps")
    const map: Part = ["lookup", { set: "m", sreg: 1, dreg: 1 }]
    expect(evaluated([saddr as Part, map, cmp(0, 1), accept], packet, () => true).matches).toBe("perhaps")
  })
})

test.each<[string, Part[], object]>([
  ["accept", [accept], { matches: "yes", verdict: "accept" }],
  ["drop", [["immediate", { data: { verdict: { code: 0 } } }]], { matches: "yes", verdict: "drop" }],
  ["return", [["immediate", { data: { verdict: { code: 0xfffffffb } } }]], { matches: "yes", verdict: "return" }],
  [
    "jump",
    [["immediate", { data: { verdict: { code: 0xfffffffd, chain: "c" } } }]],
    { matches: "yes", verdict: { jump: "c" } },
  ],
  ["another verdict", [["immediate", { data: { verdict: { code: 7 } } }]], { matches: "yes" }],
  ["a value that is put down", [["immediate", { dreg: 1, data: { value: Uint8Array.of(1) } }]], { matches: "yes" }],
  ["masquerade", [["masq", {}]], { matches: "yes", verdict: "masquerade" }],
  ["nat", [["nat", {}]], { matches: "yes", verdict: "nat" }],
  ["reject", [["reject", new Uint8Array()]], { matches: "yes", verdict: "drop" }],
  ["redirect", [["redir", new Uint8Array()]], { matches: "yes", verdict: "nat" }],
  ["tproxy", [["tproxy", new Uint8Array()]], { matches: "yes", verdict: "nat" }],
  ["a log", [["log", new Uint8Array()], accept], { matches: "yes", verdict: "accept" }],
  [
    "iptables' comment",
    [["match", extensionAttributes.encode({ name: "comment" })], accept],
    { matches: "yes", verdict: "accept" },
  ],
  [
    "iptables' other matches",
    [["match", extensionAttributes.encode({ name: "mark" })], accept],
    { matches: "perhaps", verdict: "accept" },
  ],
  ["an unknown match", [["xt", new Uint8Array()], accept], { matches: "perhaps", verdict: "accept" }],
  ["a rule that decides nothing", [["counter", {}]], { matches: "yes" }],
])("what a rule does: %s", (_, parts, expected) => {
  expect(evaluated(parts)).toEqual(expected as ReturnType<typeof evaluate>)
})

test("registers of words are the same bytes as those of 16", () => {
  const low: Part = ["payload", { dreg: 9, base: 1, offset: 12, length: 4 }]
  const high: Part = ["payload", { dreg: 8, base: 1, offset: 16, length: 4 }]
  expect(matches([low, high, cmp(0, 192, 0, 2, 1, 10, 1, 0, 2)])).toBe("yes")
  const second: Part = ["payload", { dreg: 2, base: 1, offset: 12, length: 4 }]
  expect(matches([second, ["cmp", { sreg: 12, op: 0, data: { value: Uint8Array.of(10, 1, 0, 2) } }]])).toBe("yes")
})
