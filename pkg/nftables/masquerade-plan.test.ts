import { describe, expect, test } from "bun:test"
import { parseCidr } from "../types/mod.ts"
import type { Line } from "./lines.ts"
import {
  groupByLayout,
  type MasqueradeAddress,
  masqueradeLayout,
  networkKey,
  networksOf,
  placesFor,
} from "./masquerade-layout.ts"
import { type MasqueradeState, planAdd, planNew, planRemove } from "./masquerade-plan.ts"
import { printRule, printTransaction } from "./print.ts"
import { type Operation, remove } from "./rule-set.ts"

const layout = masqueradeLayout("ip")
const nothing: MasqueradeState = { isComplete: false, prefixes: [], hasFormer: false, held: [] }
const complete: MasqueradeState = { isComplete: true, prefixes: [16, 24], hasFormer: false, held: [] }

function address(text: string): MasqueradeAddress {
  const found = parseCidr(text)
  if (!found) throw new Error(`no address: ${text}`)
  return found
}

/** The lines of an address: "10.1.0.2/16", and who has it in their order, "net/c1/eth0", … */
function heldBy(cidr: string, ...comments: string[]): Line[] {
  return placesFor(layout, [address(cidr)], "").map(({ set, element: { key } }) => {
    const [first, ...others] = comments.map((comment) => ({ key, comment }))
    return { set, key, members: [first, ...others] }
  })
}

const owner = { network: "net", containerId: "c1", ifName: "eth0" }

function text(operations: readonly Operation[]): string[] {
  return printTransaction(operations)
    .replace(/ip cni_masquerade (?=\w)/g, "")
    .trim()
    .split("\n")
}

/** Verb, object and name of each operation. */
function outline(operations: readonly Operation[]): string[] {
  return text(operations).map((line) => line.split(" ", 3).join(" "))
}

describe("adding", () => {
  const ours = [address("10.1.0.2/16")]

  test("the first makes all there is", () => {
    expect(outline(planAdd(layout, nothing, ours, owner))).toEqual([
      "add table ip",
      "add chain postrouting",
      "flush chain postrouting",
      "add set containers",
      "add set networks_16",
      "add rule postrouting",
      "add rule postrouting",
      "create element containers",
      "create element networks_16",
    ])
  })

  test("the next only add their elements", () => {
    const plan = text(planNew(layout, ours, "net/c1/eth0"))
    expect(plan).toEqual([
      'create element containers { 10.1.0.2 comment "net/c1/eth0" }',
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "net/c1/eth0" }',
    ])
    expect(text(planAdd(layout, complete, ours, owner))).toEqual(plan)
  })

  test("several addresses go to the set of their prefix length each", () => {
    const addresses = ["10.1.0.2/16", "10.2.0.2/24", "10.3.0.2/24"].map(address)
    expect(text(planNew(layout, addresses, "o"))).toEqual([
      'create element containers { 10.1.0.2 comment "o", 10.2.0.2 comment "o", 10.3.0.2 comment "o" }',
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "o" }',
      'create element networks_24 { 10.2.0.2 . 10.2.0.0 comment "o", 10.3.0.2 . 10.3.0.0 comment "o" }',
    ])
  })

  test("the first with its prefix length makes a set and a rule, which stands before the masquerade", () => {
    const state = { ...complete, isComplete: false, prefixes: [24, 8] }
    const plan = text(planAdd(layout, state, ours, owner))
    expect(plan.filter((line) => line.startsWith("add set")).map((line) => line.split(" ")[2])).toEqual([
      "containers",
      "networks_8",
      "networks_16",
      "networks_24",
    ])
    expect(plan.indexOf("flush chain postrouting")).toBeLessThan(plan.findIndex((line) => line.startsWith("add rule")))
    expect(plan.filter((line) => line.startsWith("add rule"))).toEqual([
      'add rule postrouting ip saddr . ip daddr & 255.0.0.0 @networks_8 return comment "to its own network, /8"',
      'add rule postrouting ip saddr . ip daddr & 255.255.0.0 @networks_16 return comment "to its own network, /16"',
      'add rule postrouting ip saddr . ip daddr & 255.255.255.0 @networks_24 return comment "to its own network, /24"',
      "add rule postrouting ip saddr @containers ip daddr != 224.0.0.0/4 masquerade" +
        ' comment "from containers to everywhere else"',
    ])
  })

  test("the set of address ranges that an early version has made stays in use", () => {
    const plan = text(planAdd(layout, { ...nothing, hasFormer: true }, ours, owner))
    expect(plan.filter((line) => line.startsWith("add rule"))[0]).toBe(
      'add rule postrouting ip saddr . ip daddr @networks return comment "to its own network"',
    )
    expect(plan).toHaveLength(10)
  })

  test("what is there already is left alone", () => {
    const state = { ...complete, held: heldBy("10.1.0.2/16", "net/c1/eth0") }
    expect(planAdd(layout, state, ours, owner)).toEqual([])
  })

  test("an address that another owner has left behind is taken over", () => {
    const state = { ...complete, held: heldBy("10.1.0.2/24", "net/old/eth0") }
    expect(text(planAdd(layout, state, ours, owner))).toEqual([
      "delete element containers { 10.1.0.2 }",
      "delete element networks_24 { 10.1.0.2 . 10.1.0.0 }",
      'create element containers { 10.1.0.2 comment "net/c1/eth0" }',
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "net/c1/eth0" }',
    ])
  })

  test("an address that another network has too is shared, and what this one has left in line goes", () => {
    const held = heldBy("10.1.0.2/16", "a/c9/eth0", "net/old/eth0", "b/c8/eth0")
    expect(text(planAdd(layout, { ...complete, held }, ours, owner))).toEqual([
      "delete element containers_standby { 10.1.0.2 . 1, 10.1.0.2 . 2 }",
      "delete element networks_16_standby { 10.1.0.2 . 10.1.0.0 . 1, 10.1.0.2 . 10.1.0.0 . 2 }",
      'add set containers_standby { type ipv4_addr . inet_service; comment "of containers, by turns"; }',
      'create element containers_standby { 10.1.0.2 . 1 comment "b/c8/eth0", 10.1.0.2 . 2 comment "net/c1/eth0" }',
      expect.stringContaining("add set networks_16_standby {"),
      expect.stringContaining('10.1.0.2 . 10.1.0.0 . 2 comment "net/c1/eth0" }'),
    ])
  })

  test("who has it already keeps the place in the line", () => {
    for (const comments of [
      ["net/c1/eth0", "b/c8/eth0"],
      ["b/c8/eth0", "net/c1/eth0"],
    ]) {
      expect(planAdd(layout, { ...complete, held: heldBy("10.1.0.2/16", ...comments) }, ours, owner)).toEqual([])
    }
  })

  test("an owner whose network has become larger gets the larger one", () => {
    const state = { ...complete, held: heldBy("10.1.0.2/24", "net/c1/eth0") }
    expect(text(planAdd(layout, state, ours, owner))).toEqual([
      "delete element networks_24 { 10.1.0.2 . 10.1.0.0 }",
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "net/c1/eth0" }',
    ])
  })
})

describe("removing", () => {
  test("makes the changes", () => {
    const operations = [remove.elements(layout.containers, [{ key: [Uint8Array.of(10, 1, 0, 2)] }])]
    expect(text(planRemove(layout, { isAll: false, operations }))).toEqual(["delete element containers { 10.1.0.2 }"])
  })

  test("the last takes the table", () => {
    expect(text(planRemove(layout, { isAll: true, operations: [] }))).toEqual(["delete table ip cni_masquerade"])
  })
})

describe("addresses", () => {
  test("go by family, each once", () => {
    const groups = groupByLayout(["fd00::2/64", "10.1.0.2/16", "10.1.0.2/16", "10.1.0.3/16"].map(address))
    expect(groups.map(({ layout, addresses }) => [layout.table.family, addresses.length])).toEqual([
      ["ip", 2],
      ["ip6", 1],
    ])
    expect(groupByLayout([])).toEqual([])
    expect(() => groupByLayout([{ ip: new Uint8Array(5), prefix: 8 }])).toThrow("an address of 5 bytes")
  })

  test.each([
    ["10.1.255.2/15", [10, 0, 0, 0]],
    ["10.1.0.2/32", [10, 1, 0, 2]],
    ["10.1.0.2/0", [0, 0, 0, 0]],
  ])("the network of %s is known by its first address", (cidr, first) => {
    const { ip, prefix } = address(cidr)
    expect(networkKey(ip, prefix)).toEqual([ip, Uint8Array.from(first)])
  })

  test.each([
    ["ip", 0, "ip saddr . ip daddr & 0.0.0.0 @networks_0 return"],
    ["ip", 20, "ip saddr . ip daddr & 255.255.240.0 @networks_20 return"],
    ["ip", 32, "ip saddr . ip daddr @networks_32 return"],
    ["ip6", 0, "ip6 saddr . ip6 daddr & :: @networks_0 return"],
    ["ip6", 64, "ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:: @networks_64 return"],
    ["ip6", 128, "ip6 saddr . ip6 daddr @networks_128 return"],
  ] as const)("of %s and a /%d are looked up by the network's first address", (family, prefix, rule) => {
    expect(printRule(networksOf(masqueradeLayout(family), prefix).rule)).toContain(` ${rule} comment`)
  })
})
