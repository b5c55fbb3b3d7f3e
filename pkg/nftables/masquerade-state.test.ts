import { describe, expect, test } from "bun:test"
import { concat, type Message, NetlinkError, netfilterHeader, type Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { elementListAttributes, ruleAttributes, setNameAttributes } from "./attributes.ts"
import { Lines, type SharedSet } from "./lines.ts"
import { masqueradeLayout, networksOf, type Place, placesFor } from "./masquerade-layout.ts"
import { findAddresses, findGone, type Gone, hasMasqueradeRules, listNetworkSets } from "./masquerade-state.ts"
import { printTransaction } from "./print.ts"
import { commentUserdata } from "./userdata.ts"
import { joinParts } from "./values.ts"

const layout = masqueradeLayout("ip")
const { rule: masquerade } = layout
const { rule: to16 } = networksOf(layout, 16)
const { rule: to24 } = networksOf(layout, 24)
const [table, chain] = [layout.table.name, layout.chain.name]
const ip = (last: number) => Uint8Array.of(10, 1, 0, last)

/** A kernel with these elements, which notes what it is asked for. */
function kernel(places: readonly Place[], names: readonly string[] = ["containers", "networks_16", "networks_24"]) {
  const asked: string[] = []
  const encoded = (listed: readonly Place[]) =>
    elementListAttributes.encode({
      table,
      elements: listed.map(({ set, element: { key, comment } }) => {
        return { key: { value: joinParts(set.key, key) }, userdata: commentUserdata(comment) }
      }),
    })
  const placesIn = (request: Request) => {
    const { set, elements } = elementListAttributes.decode(request.payload.subarray(4))
    const wanted = elements?.map(({ key }) => key?.value?.toHex())
    asked.push(`${wanted ? "get" : "list"} ${set}`)
    if (set === undefined || !names.includes(set)) throw new NetlinkError(request.what, "ENOENT")
    const inSet = places.filter((place) => place.set.name === set)
    return wanted ? inSet.filter(({ set, element }) => wanted.includes(joinParts(set.key, element.key).toHex())) : inSet
  }
  return {
    asked,
    get(request: Request): Message {
      const found = placesIn(request)
      if (found.length === 0) throw new NetlinkError(request.what, "ENOENT")
      return message(encoded(found))
    },
    dump: dumping((request) => {
      if (request.type !== 0xa0a) return [message(encoded(placesIn(request)))]
      asked.push("list sets")
      return names.map((name) => message(setNameAttributes.encode({ table, name })))
    }),
  }
}

function message(attributes: Uint8Array): Message {
  return { type: 0, flags: 0, sequence: 0, port: 0, payload: concat([netfilterHeader(2), attributes]) }
}

/** A kernel whose chain has rules with these comments. */
function ruled(...comments: (string | undefined)[]) {
  const answer = (comment: string | undefined) =>
    message(ruleAttributes.encode({ table, chain, userdata: commentUserdata(comment) }))
  return { dump: dumping(() => comments.map(answer)) }
}

describe("the rules are all there", () => {
  const addresses = [{ ip: ip(2), prefix: 16 }]

  test("when those for the prefix lengths stand before the masquerade", () => {
    expect(hasMasqueradeRules(ruled(to16.comment, masquerade.comment), layout, addresses)).toBe(true)
    expect(hasMasqueradeRules(ruled(to24.comment, to16.comment, masquerade.comment), layout, addresses)).toBe(true)
    expect(hasMasqueradeRules(ruled(masquerade.comment), layout, [])).toBe(true)
  })

  test.each([
    ["none", []],
    ["without the masquerade", [to16.comment]],
    ["without the prefix length", [to24.comment, masquerade.comment]],
    ["in another order", [masquerade.comment, to16.comment]],
    ["with somebody else's", ["mine", to16.comment, masquerade.comment]],
    ["with one that has no comment", [undefined, to16.comment, masquerade.comment]],
    ["of the layout before", ["from containers to beyond their network"]],
  ])("not: %s", (_, comments) => {
    expect(hasMasqueradeRules(ruled(...comments), layout, addresses)).toBe(false)
  })
})

test("the sets of networks are known by their names", () => {
  const sets = (...names: string[]) => listNetworkSets(new Lines(kernel([], names)), layout)
  expect(sets("containers", "networks_0", "networks_32")).toEqual({ prefixes: [0, 32], hasFormer: false })
  expect(sets("containers", "networks", "networks_of", "networks_", "networks_016", "net")).toEqual({
    prefixes: [],
    hasFormer: true,
  })
})

test("an address is looked for in every set, by one question each", () => {
  const places = placesFor(layout, [{ ip: ip(2), prefix: 24 }], "net/old/eth0")
  const socket = kernel([...places, ...placesFor(layout, [{ ip: ip(3), prefix: 16 }], "net/c3/eth0")])
  const lines = findAddresses(new Lines(socket), layout, [16, 24], [ip(2)])
  expect(lines).toEqual(places.map(({ set, element }) => ({ set, key: element.key, members: [element] })))
  expect(socket.asked).toEqual(["list sets", "get containers", "get networks_16", "get networks_24"])
})

describe("what is gone", () => {
  const of = (last: number, comment: string, prefix = 16) => placesFor(layout, [{ ip: ip(last), prefix }], comment)
  const isC1 = (comment: string) => comment === "net/c1/eth0"
  const needles = [new TextEncoder().encode("net/c1/eth0")]
  const printed = (gone: Gone | undefined) =>
    printTransaction(gone?.operations ?? [])
      .trim()
      .split("\n")
      .map((line) => line.replace("ip cni_masquerade ", ""))

  test("is found by its owner, with its networks", () => {
    const socket = kernel([...of(2, "net/c1/eth0"), ...of(3, "net/c1/eth0", 24), ...of(4, "net/c2/eth0")])
    const gone = findGone(socket, layout, isC1, needles)
    expect(gone?.isAll).toBe(false)
    expect(printed(gone)).toEqual([
      "delete element containers { 10.1.0.2, 10.1.0.3 }",
      "delete element networks_16 { 10.1.0.2 . 10.1.0.0 }",
      "delete element networks_24 { 10.1.0.3 . 10.1.0.0 }",
    ])
  })

  test("leaves an address to the network that stands by for it", () => {
    const waiting = of(2, "b/c9/eth0").map(({ set, element }) => {
      return { set: set.standby as SharedSet, element: { ...element, key: [...element.key, Uint8Array.of(0, 1)] } }
    })
    const names = ["containers", "networks_16", "containers_standby", "networks_16_standby"]
    const gone = findGone(kernel([...of(2, "net/c1/eth0"), ...waiting], names), layout, isC1, needles)
    expect(gone?.isAll).toBe(false)
    expect(printed(gone)).toEqual([
      "delete element containers { 10.1.0.2 }",
      "delete element containers_standby { 10.1.0.2 . 1 }",
      "delete element networks_16 { 10.1.0.2 . 10.1.0.0 }",
      "delete element networks_16_standby { 10.1.0.2 . 10.1.0.0 . 1 }",
      'create element containers { 10.1.0.2 comment "b/c9/eth0" }',
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "b/c9/eth0" }',
      "delete set containers_standby",
      "delete set networks_16_standby",
    ])
  })

  test("is all when nobody else is left, and when nobody is there at all", () => {
    const all = { operations: [], isAll: true }
    expect(findGone(kernel(of(2, "net/c1/eth0")), layout, isC1, needles)).toEqual(all)
    expect(findGone(kernel([]), layout, isC1, needles)).toEqual(all)
  })

  test("is nothing when it is all others', and costs two questions", () => {
    const socket = kernel(of(2, "net/c11/eth0"))
    expect(findGone(socket, layout, isC1, needles)).toEqual({ operations: [], isAll: false })
    expect(socket.asked).toEqual(["list sets", "list containers"])
  })

  test("is undefined without the table", () => {
    const socket = kernel([], [])
    expect(findGone(socket, layout, isC1, needles)).toBeUndefined()
    expect(socket.asked).toEqual(["list sets"])
  })

  test("goes once, though the kernel lists an element twice while its set is growing", () => {
    const twice = [...of(2, "net/c1/eth0"), ...of(2, "net/c1/eth0")]
    expect(findGone(kernel(twice), layout, isC1, needles)?.isAll).toBe(true)
    const gone = findGone(kernel([...twice, ...of(4, "net/c2/eth0")]), layout, isC1, needles)
    expect(printed(gone)).toEqual([
      "delete element containers { 10.1.0.2 }",
      "delete element networks_16 { 10.1.0.2 . 10.1.0.0 }",
    ])
  })

  test("may be half of what was made: somebody has deleted the rest by hand", () => {
    const [container] = of(2, "net/c1/eth0")
    const socket = kernel([...(container ? [container] : []), ...of(4, "net/c2/eth0")])
    expect(printed(findGone(socket, layout, isC1))).toEqual(["delete element containers { 10.1.0.2 }"])
  })
})
