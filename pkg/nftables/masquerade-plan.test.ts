import { describe, expect, test } from "bun:test"
import { parseCidr } from "../types/mod.ts"
import {
  containerElement,
  groupByLayout,
  type MasqueradeAddress,
  masqueradeLayout,
  networkElement,
} from "./masquerade-layout.ts"
import { planAdd, planNew, planRemove } from "./masquerade-plan.ts"
import { printTransaction } from "./print.ts"
import type { Operation } from "./rule-set.ts"

const layout = masqueradeLayout("ip")

function address(text: string): MasqueradeAddress {
  const found = parseCidr(text)
  if (!found) throw new Error(`no address: ${text}`)
  return found
}

/** A rule set with the elements of these holders: "10.1.0.2/16" of "net/c1/eth0", … */
function holding(holders: Record<string, string>) {
  const list = Object.entries(holders).map(([cidr, comment]) => [address(cidr), comment] as const)
  const containers = list.map(([held, comment]) => containerElement(held, comment))
  const networks = list.map(([held, comment]) => networkElement(held, comment))
  return {
    isComplete: true,
    containers: { count: list.length, elements: containers },
    networks: { count: list.length, elements: networks },
  }
}
const nothing = { isComplete: false, containers: undefined, networks: undefined }

function text(operations: readonly Operation[]): string[] {
  return printTransaction(operations)
    .replace(/ip cni_masquerade (?=\w)/g, "")
    .trim()
    .split("\n")
}

describe("adding", () => {
  const ours = [address("10.1.0.2/16")]

  test("the first makes all there is", () => {
    const plan = text(planAdd(layout, nothing, ours, "net/c1/eth0"))
    expect(plan.map((line) => line.split(" ", 3).join(" "))).toEqual([
      "add table ip",
      "add chain postrouting",
      "flush chain postrouting",
      "add set containers",
      "add set networks",
      "add rule postrouting",
      "add element containers",
      "add element networks",
    ])
  })

  test("the next only add their elements", () => {
    const plan = text(planNew(layout, ours, "net/c1/eth0"))
    expect(plan).toEqual([
      'create element containers { 10.1.0.2 comment "net/c1/eth0" }',
      'create element networks { 10.1.0.2 . 10.1.0.0/16 comment "net/c1/eth0" }',
    ])
    expect(text(planAdd(layout, holding({ "10.1.0.3/16": "net/c2/eth0" }), ours, "net/c1/eth0"))).toEqual(
      plan.map((line) => line.replace("create", "add")),
    )
  })

  test("what is there already is left alone", () => {
    expect(planAdd(layout, holding({ "10.1.0.2/16": "net/c1/eth0" }), ours, "net/c1/eth0")).toEqual([])
  })

  test("an address that another owner has left behind is taken over", () => {
    expect(text(planAdd(layout, holding({ "10.1.0.2/24": "net/old/eth0" }), ours, "net/c1/eth0"))).toEqual([
      "delete element containers { 10.1.0.2 }",
      'add element containers { 10.1.0.2 comment "net/c1/eth0" }',
      "delete element networks { 10.1.0.2 . 10.1.0.0/24 }",
      'add element networks { 10.1.0.2 . 10.1.0.0/16 comment "net/c1/eth0" }',
    ])
  })

  test("an owner whose network has become larger gets the larger one", () => {
    expect(text(planAdd(layout, holding({ "10.1.0.2/24": "net/c1/eth0" }), ours, "net/c1/eth0"))).toEqual([
      "delete element networks { 10.1.0.2 . 10.1.0.0/24 }",
      'add element networks { 10.1.0.2 . 10.1.0.0/16 comment "net/c1/eth0" }',
    ])
  })
})

describe("removing", () => {
  const isC1 = (comment: string) => comment === "net/c1/eth0"

  test("one of several takes its elements, all of them", () => {
    const found = holding({ "10.1.0.2/16": "net/c1/eth0", "10.2.0.2/16": "net/c1/eth0", "10.1.0.3/16": "net/c2/eth0" })
    expect(text(planRemove(layout, found, isC1))).toEqual([
      "delete element containers { 10.1.0.2, 10.2.0.2 }",
      "delete element networks { 10.1.0.2 . 10.1.0.0/16, 10.2.0.2 . 10.2.0.0/16 }",
    ])
  })

  test("the last takes the table", () => {
    expect(text(planRemove(layout, holding({ "10.1.0.2/16": "net/c1/eth0" }), isC1))).toEqual([
      "delete table ip cni_masquerade",
    ])
  })

  test("others' elements that were only counted keep the table", () => {
    const { containers, networks } = holding({ "10.1.0.2/16": "net/c1/eth0" })
    const plan = planRemove(
      layout,
      { containers: { ...containers, count: 2 }, networks: { ...networks, count: 2 } },
      isC1,
    )
    expect(text(plan)).toHaveLength(2)
  })

  test("nothing there is nothing to do, and neither are the elements of others", () => {
    expect(planRemove(layout, nothing, isC1)).toEqual([])
    expect(planRemove(layout, holding({ "10.1.0.2/16": "net/c2/eth0" }), isC1)).toEqual([])
  })

  test("half an attachment, as somebody may have left it by hand, is removed too", () => {
    const { containers } = holding({ "10.1.0.2/16": "net/c1/eth0" })
    const { networks } = holding({ "10.1.0.3/16": "net/c2/eth0" })
    expect(text(planRemove(layout, { containers, networks }, isC1))).toEqual(["delete element containers { 10.1.0.2 }"])
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
    ["10.1.255.2/15", [10, 0, 0, 0], [10, 1, 255, 255]],
    ["10.1.0.2/32", [10, 1, 0, 2], [10, 1, 0, 2]],
    ["10.1.0.2/0", [0, 0, 0, 0], [255, 255, 255, 255]],
  ])("the network of %s is all of it", (cidr, first, last) => {
    const { key, keyEnd } = networkElement(address(cidr), "")
    expect([key[1], keyEnd?.[1]]).toEqual([Uint8Array.from(first), Uint8Array.from(last)])
  })
})
