import { describe, expect, test } from "bun:test"
import { attrs, type Ifindex, u32, u32be } from "../../pkg/netlink/mod.ts"
import { type Element, extensionAttributes, type FoundRule, type SetLayout } from "../../pkg/nftables/mod.ts"
import { Choices } from "./choices.ts"
import { evaluate } from "./evaluate.ts"
import type { Kernel } from "./kernel.ts"
import { NO_LABELS, type Packet, u32Bits } from "./packet.ts"

const source = Uint8Array.of(10, 1, 0, 2)
const destination = Uint8Array.of(192, 0, 2, 1)
const packet: Packet = {
  source,
  destination,
  protocol: 6,
  destinationPort: 8080,
  input: "br0",
  output: "eth0",
  mark: u32Bits(0),
  connectionMark: u32Bits(0),
  connectionLabels: NO_LABELS,
  tracking: "new",
  original: { source, destination, destinationPort: 8080 },
  isDestinationMapped: false,
  isSourceMapped: false,
  isBridged: false,
}
const six: Packet = { ...packet, source: new Uint8Array(16).fill(1), destination: new Uint8Array(16).fill(2) }

type Part = readonly [name: string, data: object]

/** A kernel with only the state that a test defines. */
const emptyKernel: Kernel = {
  layoutOf: () => undefined,
  elementOf: () => undefined,
  mayHave: () => true,
  addressType: () => 1,
  linkTowards: () => undefined,
  addressOn: () => undefined,
  interfaceOf: () => undefined,
  isRecent: () => undefined,
}
const layout: SetLayout = { keyLength: 4, valueLength: 0, hasVerdicts: false, isInterval: false }

/** Returns the outcome of a rule with expressions in the numbers of <linux/netfilter/nf_tables.h>. */
function evaluated(parts: readonly Part[], of: Packet = packet, kernel: Partial<Kernel> = {}, wanted: number[] = []) {
  const expressions = parts.map(([name, data]) => ({ name, data }))
  const chain = { table: { family: "ip", name: "t" }, name: "c" }
  const rule = { expressions, chain } as unknown as FoundRule
  return evaluate(rule, of, { ...emptyKernel, ...kernel }, new Choices(wanted))
}

const accept: Part = ["immediate", { dreg: 0, data: { verdict: { code: 1 } } }]
const [saddr, daddr]: Part[] = [12, 16].map((offset) => ["payload", { dreg: 1, base: 1, offset, length: 4 }] as const)
const cmp = (op: number, ...value: number[]): Part => ["cmp", { sreg: 1, op, data: { value: Uint8Array.from(value) } }]
const matches = (parts: (Part | undefined)[], of?: Packet, kernel?: Partial<Kernel>) =>
  evaluated([...parts.filter((part) => part !== undefined), accept], of, kernel).matches

describe("comparisons", () => {
  // NFT_CMP_EQ, NEQ, LT, LTE, GT, GTE, against an address that is less, equal, or greater
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
    expect(matches([ct(2), cmp(0, 32, 0, 0, 0)], { ...packet, isDestinationMapped: true })).toBe("yes")
    expect(matches([fib, cmp(0, 2, 0, 0, 0)], packet, { addressType: () => 2 })).toBe("yes")
    expect(matches([meta(15), cmp(0, 10)], six)).toBe("yes")
    expect(matches([["payload", { dreg: 1, base: 1, offset: 6, length: 1 }], cmp(0, 6)], six)).toBe("yes")
  })

  test("a chain before the kernel looks for connections has no connection to ask", () => {
    const early: Packet = { ...packet, tracking: "none" }
    expect(matches([ct(0), cmp(0, 1, 0, 0, 0)], early)).toBe("yes") // NF_CT_STATE_INVALID_BIT
    expect(matches([ct(2), cmp(0, 0, 0, 0, 0)], early)).toBe("no")
    expect(matches([ct(0), cmp(0, 64, 0, 0, 0)], { ...packet, tracking: "untracked" })).toBe("yes")
  })

  test("its flags: the first segment of TCP has SYN alone, and is not a fragment", () => {
    const flags: Part = ["payload", { dreg: 1, base: 2, offset: 13, length: 1 }]
    const mask = (...bytes: number[]): Part => [
      "bitwise",
      { sreg: 1, dreg: 1, length: bytes.length, mask: { value: Uint8Array.from(bytes) } },
    ]
    expect(matches([flags, mask(0x17), cmp(0, 2)])).toBe("yes")
    const offset: Part = ["payload", { dreg: 1, base: 1, offset: 6, length: 2 }]
    expect(matches([offset, mask(0x1f, 0xff), cmp(1, 0, 0)])).toBe("no")
    expect(matches([offset, mask(0x5f, 0xff), cmp(1, 0, 0)])).toBe("perhaps")
  })

  test("by which interface the host answers it: firewalld's check of the reverse path", () => {
    const missing = (name?: string) => {
      const kernel = { linkTowards: () => (name === undefined ? undefined : { index: 3 as Ifindex, name }) }
      const present: Part = ["fib", { dreg: 1, result: 1, flags: 1 | 4 | 8 | 32 }]
      return matches([present, cmp(0, 0, 0, 0, 0)], packet, kernel)
    }
    expect([missing("br0"), missing("eth0"), missing()]).toEqual(["no", "yes", "yes"])
    const oif: Part = ["fib", { dreg: 1, result: 1, flags: 2 }]
    expect(
      matches([oif, cmp(0, 7, 0, 0, 0)], packet, { linkTowards: () => ({ index: 7 as Ifindex, name: "x" }) }),
    ).toBe("yes")
  })

  test("and no user: no process of the host sends it", () => {
    expect(matches([meta(10), cmp(0, 0, 0, 0, 0)])).toBe("no")
  })

  test.each<[string, Part]>([
    ["the source port", ["payload", { dreg: 1, base: 2, offset: 0, length: 2 }]],
    ["the frame's header", ["payload", { dreg: 1, base: 0, offset: 0, length: 6 }]],
    ["the hour", meta(32)],
    ["ct key 6", ct(6)],
  ])("not %s", (what, load) => {
    expect(evaluated([load, cmp(0, 0, 0), accept])).toMatchObject({ matches: "perhaps", unknown: [what] })
  })
})

describe("sets", () => {
  const lookup = (flags = 0): Part => ["lookup", { set: "s", sreg: 1, flags }]
  const having = (has: boolean, asked: string[] = []): Partial<Kernel> => ({
    layoutOf: () => layout,
    elementOf: (_, set, __, key) => {
      asked.push(`${set} ${key.join(".")}`)
      return has ? { key: [key] } : undefined
    },
  })
  test.each([
    [true, 0, "yes"],
    [false, 0, "no"],
    [true, 1, "no"],
    [false, 1, "yes"],
  ] as const)("that have the key %p, with flags %d: %s", (has, flags, expected) => {
    const asked: string[] = []
    expect(matches([saddr, lookup(flags)], packet, having(has, asked))).toBe(expected)
    expect(asked).toEqual(["s 10.1.0.2"])
  })

  test("that do not exist, and keys that are not known, decide nothing", () => {
    expect(matches([saddr, lookup()])).toBe("perhaps")
    const unknown: Part = ["meta", { dreg: 1, key: 32 }]
    expect(matches([unknown, lookup()], packet, { ...having(true), elementOf: () => expect.unreachable() })).toBe(
      "perhaps",
    )
  })

  test.each([
    [0, "no"],
    [1, "yes"],
  ] as const)("that have no key like the one that is known in part, with flags %d: %s", (flags, expected) => {
    const known: string[] = []
    const kernel: Partial<Kernel> = {
      layoutOf: () => layout,
      mayHave: (_, set, __, { known: bits }) => {
        known.push(`${set} ${bits.join(".")}`)
        return false
      },
    }
    const ports: Part = ["payload", { dreg: 1, base: 2, offset: 0, length: 4 }]
    expect(matches([ports, lookup(flags)], packet, kernel)).toBe(expected)
    expect(known).toEqual(["s 0.0.255.255"])
  })

  const mapping = (value: Partial<Element>): Partial<Kernel> => ({
    layoutOf: () => layout,
    elementOf: (_, __, ___, key) => ({ key: [key], ...value }),
  })

  test("a map leads to a value, an address and a port for `dnat`", () => {
    const map: Part = ["lookup", { set: "m", sreg: 1, dreg: 1 }]
    const dnat: Part = ["nat", { type: 1, family: 2, sregAddressMin: 1, sregPortMin: 9 }]
    const kernel = mapping({ value: [Uint8Array.of(10, 85, 0, 3, 0, 80, 0, 0)] })
    const ip = Uint8Array.of(10, 85, 0, 3)
    const { matches, action } = evaluated([saddr as Part, map, dnat], packet, kernel)
    expect({ matches, action }).toEqual({
      matches: "yes",
      action: { kind: "destination", ip, port: 80, from: "rule", isOpen: false },
    })
  })

  test("a map of verdicts decides; a packet that it does not have goes on", () => {
    const map: Part = ["lookup", { set: "v", sreg: 1, dreg: 0 }]
    const action = (kernel: Partial<Kernel>) => evaluated([saddr as Part, map], packet, kernel)
    expect(action(mapping({ verdict: { goto: "c" } }))).toMatchObject({ action: { kind: "goto", chain: "c" } })
    expect(action(mapping({ verdict: "drop" }))).toMatchObject({ action: { kind: "drop" } })
    expect(action(having(false))).toMatchObject({ matches: "no" })
  })

  test("`numgen` and `jhash` lead to one of the alternatives, which is chosen", () => {
    const asked: string[] = []
    for (const [name, data] of [
      [
        "numgen",
        attrs({ dreg: [1, u32be], modulus: [2, u32be], type: [3, u32be] }).encode({ dreg: 1, modulus: 3, type: 1 }),
      ],
      [
        "hash",
        attrs({ sreg: [1, u32be], dreg: [2, u32be], modulus: [4, u32be] }).encode({ sreg: 2, dreg: 1, modulus: 3 }),
      ],
    ] as const)
      evaluated([[name, data], lookup(), accept], packet, having(true, asked), [2])
    expect(asked).toEqual(["s 2.0.0.0", "s 2.0.0.0"])
  })
})

/** An extension of iptables, with the bytes of its struct. */
const extension = (kind: "match" | "target", name: string, info: Uint8Array, revision = 0): Part => [
  kind,
  extensionAttributes.encode({ name, revision, info }),
]

test.each<[string, Part[], object]>([
  ["accept", [accept], { action: { kind: "accept" } }],
  ["drop", [["immediate", { data: { verdict: { code: 0 } } }]], { action: { kind: "drop" } }],
  ["return", [["immediate", { data: { verdict: { code: 0xfffffffb } } }]], { action: { kind: "return" } }],
  [
    "jump",
    [["immediate", { data: { verdict: { code: 0xfffffffd, chain: "c" } } }]],
    { action: { kind: "jump", chain: "c" } },
  ],
  [
    "goto",
    [["immediate", { data: { verdict: { code: 0xfffffffc, chain: "c" } } }]],
    { action: { kind: "goto", chain: "c" } },
  ],
  ["queue", [["immediate", { data: { verdict: { code: 3 } } }]], { action: { kind: "other", what: "queue" } }],
  ["another verdict", [["immediate", { data: { verdict: { code: 7 } } }]], {}],
  ["a value that is put down", [["immediate", { dreg: 1, data: { value: Uint8Array.of(1) } }]], {}],
  ["masquerade", [["masq", {}]], { action: { kind: "source", from: "output", isOpen: false } }],
  ["reject", [["reject", new Uint8Array()]], { action: { kind: "drop" } }],
  [
    "redirect",
    [["redir", new Uint8Array()]],
    { action: { kind: "destination", from: "input", port: undefined, isOpen: false } },
  ],
  ["tproxy", [["tproxy", new Uint8Array()]], { action: { kind: "other", what: "tproxy" } }],
  ["a log", [["log", new Uint8Array()], accept], { action: { kind: "accept" } }],
  ["iptables' comment", [extension("match", "comment", new Uint8Array(256)), accept], { action: { kind: "accept" } }],
  [
    "a match of iptables that is not known",
    [extension("match", "hashlimit", new Uint8Array(8)), accept],
    { matches: "perhaps", action: { kind: "accept" }, unknown: ['"hashlimit"'] },
  ],
  [
    "a target of iptables that decides",
    [extension("target", "REJECT", new Uint8Array(4))],
    { action: { kind: "drop" } },
  ],
  [
    "a target of iptables that only tells",
    [extension("target", "LOG", new Uint8Array(4)), accept],
    { action: { kind: "accept" } },
  ],
  [
    "a target of iptables that is not known",
    [extension("target", "SYNPROXY", new Uint8Array(4))],
    { action: { kind: "other", what: "SYNPROXY" } },
  ],
  [
    "an unknown expression",
    [["xfrm", new Uint8Array()], accept],
    { matches: "perhaps", action: { kind: "accept" }, unknown: ["xfrm"] },
  ],
  ["a rule that decides nothing", [["counter", {}]], {}],
])("what a rule does: %s", (_, parts, expected) => {
  expect(evaluated(parts)).toEqual({ matches: "yes", packet, unknown: [], notJudged: [], ...expected })
})

describe("marks", () => {
  /** struct xt_mark_tginfo2 and xt_mark_mtinfo1 */
  const words = (...values: number[]) => Uint8Array.from(values.flatMap((value) => [...u32.encode(value)]))
  const set = extension("target", "MARK", words(0x4000, 0x4000), 2)
  const marked = (packet: Packet, inverted = 0) =>
    matches([extension("match", "mark", Uint8Array.of(...words(0x4000, 0x4000), inverted, 0, 0, 0), 1)], packet)

  test("that a rule sets are known to the next one", () => {
    expect(evaluated([set]).packet.mark).toEqual({ ...u32Bits(0x4000) })
    expect([marked(packet), marked(packet, 1)]).toEqual(["no", "yes"])
    expect([marked(evaluated([set]).packet), marked(evaluated([set]).packet, 1)]).toEqual(["yes", "no"])
  })

  test("that a rule may have set are not known, but for the bits that it leaves alone", () => {
    const limit = extension("match", "hashlimit", new Uint8Array(8))
    const { packet: after } = evaluated([limit, set])
    expect(marked(after)).toBe("perhaps")
    expect(matches([extension("match", "mark", Uint8Array.of(...words(1, 1), 0, 0, 0, 0), 1)], after)).toBe("no")
  })
})

test("registers of words are the same bytes as those of 16", () => {
  const low: Part = ["payload", { dreg: 9, base: 1, offset: 12, length: 4 }]
  const high: Part = ["payload", { dreg: 8, base: 1, offset: 16, length: 4 }]
  expect(matches([low, high, cmp(0, 192, 0, 2, 1, 10, 1, 0, 2)])).toBe("yes")
  const second: Part = ["payload", { dreg: 2, base: 1, offset: 12, length: 4 }]
  expect(matches([second, ["cmp", { sreg: 12, op: 0, data: { value: Uint8Array.of(10, 1, 0, 2) } }]])).toBe("yes")
})
