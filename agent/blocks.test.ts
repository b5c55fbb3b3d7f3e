import { describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { capacityOf, formatPoolFile, type PoolFile, rangeSetsOf } from "../ipam/host-local/main.ts"
import { Blocks, parsePrefix } from "./blocks.ts"
import { blockToGive, brakeOf, type Demand, type Holding, needsBlock } from "./engine/decide.ts"
import { poolFileOf } from "./engine/held.ts"
import { faultOf } from "./pools.ts"
import type { PoolPrefix } from "./records.ts"
import { podPool, TestNode } from "./testing/world.ts"

const four: PoolPrefix = { prefix: "10.64.0.0/24", blockLength: 28, reserved: [] }
const none = () => false

describe("the blocks of a prefix", () => {
  test("are all tried once, from a place that the node's name tells", () => {
    const blocks = Blocks.of(four)
    const a = [...blocks.candidates("node-a", none)]
    const b = [...blocks.candidates("node-b", none)]
    expect(a).toHaveLength(16)
    expect([...a].sort()).toEqual([...b].sort())
    expect(a[0]).not.toBe(b[0])
    expect([...blocks.candidates("node-a", none)]).toEqual(a)
    expect(a.every((block) => blocks.has(block))).toBe(true)
  })

  test("that are taken or lie in a reserved prefix are left out", () => {
    const blocks = Blocks.of({ ...four, reserved: ["10.64.0.128/25", "10.64.0.130/31", "10.64.0.7"] })
    const all = [...blocks.candidates("n", (block) => block === "10.64.0.16/28")].sort()
    expect(all).toEqual(["0", "32", "48", "64", "80", "96", "112"].map((last) => `10.64.0.${last}/28`).sort())
    expect([blocks.count, blocks.claimable]).toEqual([16n, 8n])
    expect(blocks.reservedIn("10.64.0.0/28")).toEqual(["10.64.0.7"])
    expect([blocks.isUsable("10.64.0.0/28"), blocks.isUsable("10.64.0.128/28")]).toEqual([true, false])
  })

  test("of IPv6 are found by arithmetic: half of four thousand million reserved ones are stepped over at once", () => {
    const six: PoolPrefix = { prefix: "fd00:64::/48", blockLength: 80, reserved: ["fd00:64:0:8000::/49"] }
    const blocks = Blocks.of(six)
    expect([blocks.count, blocks.claimable]).toEqual([1n << 32n, 1n << 31n])
    for (let at = 0; at < 50; at++) {
      const [block = ""] = blocks.candidates(`node-${at}`, none)
      expect(parsePrefix(block)?.length).toBe(80)
      expect(blocks.isUsable(block)).toBe(true)
    }
    expect(blocks.blockOf("fd00:64:0:1:2:3:4:5")).toBe("fd00:64:0:1:2::/80")
  })

  test("with more than 256 reserved addresses, or none left, are not claimed", () => {
    const many = Blocks.of({ prefix: "10.64.0.0/16", blockLength: 22, reserved: ["10.64.0.0/23", "10.64.4.0/24"] })
    expect([many.isUsable("10.64.0.0/22"), many.isUsable("10.64.4.0/22")]).toEqual([false, true])
    const full = Blocks.of({ prefix: "10.64.0.0/24", blockLength: 30, reserved: ["10.64.0.2"] })
    expect(full.isUsable("10.64.0.0/30")).toBe(false)
    expect(full.claimable).toBe(63n)
  })

  test.each<[string, PoolPrefix, string, readonly string[]]>([
    [
      "IPv4",
      { prefix: "10.64.0.0/24", blockLength: 32, reserved: [] },
      "10.64.0.9/32",
      [
        "10.64.0.9",
        "10.64.0.9/31",
        "10.64.1.9/32",
        "10.64.0.09/32",
        "10.64.0.9/032",
        "::ffff:10.64.0.9/128",
        "::ffff:10.64.0.9/32",
        "",
      ],
    ],
    [
      "IPv6",
      { prefix: "fd00:64::/48", blockLength: 80, reserved: [] },
      "fd00:64:0:1::/80",
      ["fd00:64:0:1:0::/80", "FD00:64:0:1::/80", "fd00:64:0:1::1/80", "fd00:64:0:1::/81", "fd00:65::/80"],
    ],
  ])("of %s have one form each; any other text is no block, and not usable", (_, prefix, block, others) => {
    const blocks = Blocks.of(prefix)
    expect(blocks.has(block)).toBe(true)
    for (const text of others) expect([text, blocks.has(text), blocks.isUsable(text)]).toEqual([text, false, false])
  })

  test("of which a few addresses are kept back are usable only where one is left", () => {
    for (const [reserved, isUsable] of [
      [["10.64.0.11"], true],
      [["10.64.0.10", "10.64.0.11"], true],
      [["10.64.0.8/30"], false],
    ] as const) {
      const small = Blocks.of({ prefix: "10.64.0.0/24", blockLength: 30, gateway: "10.64.0.1", reserved })
      expect([reserved, small.isUsable("10.64.0.8/30")]).toEqual([reserved, isUsable])
    }
  })

  const shapes: readonly PoolPrefix[] = [
    four,
    { ...four, reserved: ["10.64.0.3", "10.64.0.8/30"] },
    { ...four, gateway: "10.64.0.1" },
    { ...four, gateway: "10.64.0.1", reserved: ["10.64.0.255", "10.64.0.1"] },
    { prefix: "10.64.0.0/24", blockLength: 24, reserved: [] },
    { prefix: "fd00:64::/64", blockLength: 120, reserved: [] },
    { prefix: "fd00:64::/64", blockLength: 120, gateway: "fd00:64::1", reserved: ["fd00:64::7"] },
  ]
  test.each(shapes)("have the number of addresses that host-local hands out of them: %j", (prefix) => {
    const directory = mkdtempSync(join(tmpdir(), "agent-blocks-"))
    try {
      mkdirSync(join(directory, "pools"))
      const node = new TestNode("a")
      const blocks = Blocks.of(prefix)
      const candidates = blocks.candidates("n", none)
      const first = `${prefix.prefix.split("/")[0]}/${prefix.blockLength}`
      for (const block of [first, candidates.next().value ?? "", candidates.next().value ?? ""]) {
        if (block === "") continue
        const held = { blocks: new Map([[block, "owned" as const]]), fixed: {}, epoch: 1 }
        const file: PoolFile = { ...poolFileOf({ ...podPool, prefixes: [prefix] }, node, held), node: ownNode() }
        writeFileSync(join(directory, "pools", "pods.json"), formatPoolFile(file))
        const pool = { name: "pods", directory: join(directory, "pools") }
        const [set = []] = rangeSetsOf({ ...configOf(file.store), pool })
        expect(`${block} ${blocks.capacityOf(block)}`).toBe(`${block} ${capacityOf(set)}`)
      }
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})

function configOf(directory: string): Parameters<typeof rangeSetsOf>[0] {
  return { directory, rangeSets: [], requested: [], routes: [], resolvConf: undefined, pool: undefined, pod: undefined }
}

function ownNode(): PoolFile["node"] {
  let machineId = ""
  try {
    machineId = readFileSync("/etc/machine-id", "utf8").trim()
  } catch {
    // a machine without an id
  }
  return { name: "a", uid: "1", machineId }
}

describe("a pool is refused", () => {
  test.each<[string, Partial<typeof podPool>, string]>([
    ["with a name that leads elsewhere", { name: "../pods" }, "its name has other characters"],
    ["without a prefix", { prefixes: [] }, "it has no prefix"],
    ["with host bits", { prefixes: [{ ...four, prefix: "10.64.0.1/24" }] }, "is not a network prefix"],
    ["in another form", { prefixes: [{ ...four, prefix: "fd00:0::/48", blockLength: 80 }] }, "in its canonical form"],
    ["with blocks larger than it", { prefixes: [{ ...four, blockLength: 23 }] }, "from 24 to 30, not 23"],
    ["with blocks of two addresses", { prefixes: [{ ...four, blockLength: 31 }] }, "from 24 to 30, not 31"],
    ["with a gateway elsewhere", { prefixes: [{ ...four, gateway: "10.65.0.1" }] }, "is not an address of"],
    ["with a reserved prefix elsewhere", { prefixes: [{ ...four, reserved: ["10.65.0.0/26"] }] }, "is not a prefix in"],
    ["that is all reserved", { prefixes: [{ ...four, reserved: ["10.64.0.0/24"] }] }, "all blocks of"],
    ["with two prefixes of one family", { prefixes: [four, { ...four, prefix: "10.65.0.0/24" }] }, "of one family"],
    ["with a quarantine in the past", { quarantineS: -1 }, "is not a number of seconds"],
    ["with a route to nowhere", { routes: [{ dst: "default" }] }, "has no network prefix"],
  ])("%s", (_, changes, reason) => {
    expect(faultOf(podPool)).toBeUndefined()
    expect(faultOf({ ...podPool, ...changes })).toContain(reason)
  })
})

describe("a node", () => {
  const block = (used: number, name = "x"): Holding => ({
    block: name,
    state: "owned",
    capacity: 61n,
    used: BigInt(used),
  })
  const alone: Demand = { others: "none", isOwn: false }

  test("claims a block when fewer than a quarter of its addresses, or fewer than 8, are free", () => {
    expect(needsBlock([], alone)).toBe(true)
    expect(needsBlock([block(46)], alone)).toBe(false)
    expect(needsBlock([block(47)], alone)).toBe(true)
    expect(needsBlock([block(53, "a"), block(37, "b")], alone)).toBe(false) // 32 of 122 are free
    expect(needsBlock([block(54, "a"), block(40, "b")], alone)).toBe(true)
    expect(needsBlock([{ ...block(0), state: "draining" }], alone)).toBe(true)
  })

  test("leaves the last blocks to nodes whose containers wait, unless its own do", () => {
    expect(needsBlock([block(61)], { others: "urgent", isOwn: false })).toBe(false)
    expect(needsBlock([block(61)], { others: "urgent", isOwn: true })).toBe(true)
    expect(needsBlock([block(60)], { others: "urgent", isOwn: true })).toBe(false)
  })

  test("gives an empty block back when twice what it keeps in hand stays free, and what it claims it does not give back", () => {
    expect(blockToGive([block(30, "a"), block(0, "b")], alone)).toBe("b")
    expect(blockToGive([block(31, "a"), block(0, "b")], alone)).toBeUndefined()
    expect(blockToGive([block(0, "a")], alone)).toBeUndefined()
    expect(blockToGive([block(1, "a"), block(1, "b")], alone)).toBeUndefined()
    for (let used = 0; used <= 61; used++) {
      const held = [block(used, "a")]
      if (needsBlock(held, alone)) expect(blockToGive([...held, block(0, "b")], alone)).toBeUndefined()
    }
  })

  test("gives more to nodes that wait", () => {
    const held = [block(40, "a"), block(0, "b")]
    expect(blockToGive(held, alone)).toBeUndefined()
    expect(blockToGive(held, { others: "some", isOwn: false })).toBe("b")
    expect(blockToGive([block(60, "a"), block(0, "b")], { others: "some", isOwn: false })).toBeUndefined()
    expect(blockToGive([block(60, "a"), block(0, "b")], { others: "urgent", isOwn: true })).toBe("b")
    expect(blockToGive([block(61, "a"), block(0, "b")], { others: "urgent", isOwn: true })).toBeUndefined()
    expect(blockToGive([block(61, "a"), block(0, "b")], { others: "urgent", isOwn: false })).toBe("b")
  })

  test("believes that one node is gone, and a tenth of many, and no more", () => {
    expect([brakeOf(2, 3, 1), brakeOf(90, 100, 10), brakeOf(3, 3, 0)]).toEqual([undefined, undefined, undefined])
    expect(brakeOf(0, 3, 0)).toBe("the store names no node at all")
    expect(brakeOf(1, 3, 2)).toBe("2 of 3 owners of blocks are gone, more than 10 %")
    expect(brakeOf(1, 1, 1)).toBe("all 1 owners of blocks are gone")
    expect(brakeOf(89, 100, 11)).toContain("more than 10 %")
  })
})
