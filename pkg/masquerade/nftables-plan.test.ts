import { describe, expect, test } from "bun:test"
import { concat, type Message, NetlinkError, netfilterHeader, type Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import {
  type KeyQueue,
  KeyQueues,
  type Operation,
  printRule,
  printTransaction,
  type SharedSet,
} from "../nftables/mod.ts"
import {
  commentUserdata,
  elementListAttributes,
  joinParts,
  refusing,
  ruleAttributes,
  setAttributes,
} from "../nftables/testing.ts"
import { AF_INET, AF_INET6, type Cidr, parseCidr } from "../types/mod.ts"
import { groupByLayout, masqueradeLayout, networkKey, networksOf, type Place, placesFor } from "./nftables-layout.ts"
import {
  findAddresses,
  hasMasqueradeRules,
  listPrefixes,
  type MasqueradeState,
  planAdd,
  planNew,
  planRemoval,
} from "./nftables-plan.ts"

const layout = masqueradeLayout(AF_INET)
const nothing: MasqueradeState = { isComplete: false, prefixes: [], held: [] }
const complete: MasqueradeState = { isComplete: true, prefixes: [16, 24], held: [] }

function address(text: string): Cidr {
  const found = parseCidr(text)
  if (!found) throw new Error(`no address: ${text}`)
  return found
}

/** Returns the queues of an address, such as "10.1.0.2/16", with these owners in order: "net/c1/eth0", … */
function heldBy(cidr: string, ...comments: string[]): KeyQueue[] {
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
    const [table, ...plan] = text(planNew(layout, ours, "net/c1/eth0"))
    expect(table).toBe("add table ip cni_masquerade") // activates the table if it is dormant
    expect(plan).toEqual([
      'create element containers { 10.1.0.2 comment "net/c1/eth0" }',
      'create element networks_16 { 10.1.0.2 . 10.1.0.0 comment "net/c1/eth0" }',
    ])
    expect(text(planAdd(layout, complete, ours, owner))).toEqual(plan)
  })

  test("several addresses go to the set of their prefix length each", () => {
    const addresses = ["10.1.0.2/16", "10.2.0.2/24", "10.3.0.2/24"].map(address)
    expect(text(planNew(layout, addresses, "o")).slice(1)).toEqual([
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
      'add set containers_standby { type ipv4_addr . inet_service; comment "waiting for containers"; }',
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

describe("addresses", () => {
  test("go by family, each once", () => {
    const groups = groupByLayout(["fd00::2/64", "10.1.0.2/16", "10.1.0.2/16", "10.1.0.3/16"].map(address))
    expect(groups.map(({ layout, addresses }) => [layout.table.family, addresses.length])).toEqual([
      ["ip", 2],
      ["ip6", 1],
    ])
    expect(groupByLayout([])).toEqual([])
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
    [AF_INET, 0, "ip saddr . ip daddr & 0.0.0.0 @networks_0 return"],
    [AF_INET, 20, "ip saddr . ip daddr & 255.255.240.0 @networks_20 return"],
    [AF_INET, 32, "ip saddr . ip daddr @networks_32 return"],
    [AF_INET6, 0, "ip6 saddr . ip6 daddr & :: @networks_0 return"],
    [AF_INET6, 64, "ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:: @networks_64 return"],
    [AF_INET6, 128, "ip6 saddr . ip6 daddr @networks_128 return"],
  ] as const)("of %s and a /%d are looked up by the network's first address", (family, prefix, rule) => {
    expect(printRule(networksOf(masqueradeLayout(family), prefix).rule)).toContain(` ${rule} comment`)
  })
})

const { rule: masquerade } = layout
const { rule: to16 } = networksOf(layout, 16)
const { rule: to24 } = networksOf(layout, 24)
const [table, chain] = [layout.table.name, layout.chain.name]
const ip = (last: number) => Uint8Array.of(10, 1, 0, last)

/** Returns a kernel that has these elements, and records its requests. */
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
    get<T>(request: Request, read: (message: Message) => T): T {
      const found = placesIn(request)
      if (found.length === 0) throw new NetlinkError(request.what, "ENOENT")
      return read(message(encoded(found)))
    },
    dump: dumping((request) => {
      if (request.type !== 0xa0a) return [message(encoded(placesIn(request)))]
      asked.push("list sets")
      return names.map((name) => message(setAttributes.encode({ table, name })))
    }),
  }
}

function message(attributes: Uint8Array): Message {
  return { type: 0, flags: 0, sequence: 0, payload: concat([netfilterHeader(2), attributes]) }
}

function ruled(...comments: (string | undefined)[]) {
  const answer = (comment: string | undefined) =>
    message(ruleAttributes.encode({ table, chain, userdata: commentUserdata(comment) }))
  return { ...refusing("ENOENT"), dump: dumping(() => comments.map(answer)) }
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
    ["with a foreign one", ["mine", to16.comment, masquerade.comment]],
    ["with a foreign one at the end", [to16.comment, "mine"]],
    ["with one of ours in the place of the masquerade", [to24.comment, to16.comment]],
    ["with one that has no comment", [undefined, to16.comment, masquerade.comment]],
    ["of the layout before", ["from containers to beyond their network"]],
  ])("not: %s", (_, comments) => {
    expect(hasMasqueradeRules(ruled(...comments), layout, addresses)).toBe(false)
  })
})

test("the sets of networks are known by their names", () => {
  const sets = (...names: string[]) => listPrefixes(new KeyQueues(kernel([], names)), layout)
  expect(sets("containers", "networks_0", "networks_32")).toEqual([0, 32])
  expect(sets("containers", "networks", "networks_of", "networks_", "networks_016", "net")).toEqual([])
})

test("an address is looked for in every set, by one question each", () => {
  const places = placesFor(layout, [{ ip: ip(2), prefix: 24 }], "net/old/eth0")
  const socket = kernel([...places, ...placesFor(layout, [{ ip: ip(3), prefix: 16 }], "net/c3/eth0")])
  const lines = findAddresses(new KeyQueues(socket), layout, [16, 24], [ip(2)])
  expect(lines).toEqual(places.map(({ set, element }) => ({ set, key: element.key, members: [element] })))
  expect(socket.asked).toEqual(["list sets", "get containers", "get networks_16", "get networks_24"])
})

describe("removing", () => {
  const of = (last: number, comment: string, prefix = 16) => placesFor(layout, [{ ip: ip(last), prefix }], comment)
  const isStale = (comment: string) => comment === "net/c1/eth0"
  const ofC1 = { isStale, needles: [new TextEncoder().encode("net/c1/eth0")] }
  const removal = (socket: ReturnType<typeof kernel>) => text(planRemoval(socket, layout, ofC1))

  test("finds elements by their owner, with the networks", () => {
    const socket = kernel([...of(2, "net/c1/eth0"), ...of(3, "net/c1/eth0", 24), ...of(4, "net/c2/eth0")])
    expect(removal(socket)).toEqual([
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
    expect(removal(kernel([...of(2, "net/c1/eth0"), ...waiting], names))).toEqual([
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

  test("takes the table when no other container is left, and when none is there at all", () => {
    for (const places of [of(2, "net/c1/eth0"), []]) {
      expect(removal(kernel(places))).toEqual(["delete table ip cni_masquerade"])
    }
  })

  test("is nothing when all elements are others', and costs two questions", () => {
    const socket = kernel(of(2, "net/c11/eth0"))
    expect(planRemoval(socket, layout, ofC1)).toEqual([])
    expect(socket.asked).toEqual(["list sets", "list containers"])
  })

  test("is nothing without the table", () => {
    const socket = kernel([], [])
    expect(planRemoval(socket, layout, ofC1)).toEqual([])
    expect(socket.asked).toEqual(["list sets"])
  })

  test("takes an element once, though the kernel lists an element twice while its set is growing", () => {
    const twice = [...of(2, "net/c1/eth0"), ...of(2, "net/c1/eth0")]
    expect(removal(kernel(twice))).toEqual(["delete table ip cni_masquerade"])
    expect(removal(kernel([...twice, ...of(4, "net/c2/eth0")]))).toEqual([
      "delete element containers { 10.1.0.2 }",
      "delete element networks_16 { 10.1.0.2 . 10.1.0.0 }",
    ])
  })

  test("takes half of what was made when the rest has been deleted by hand", () => {
    const [container] = of(2, "net/c1/eth0")
    const socket = kernel([...(container ? [container] : []), ...of(4, "net/c2/eth0")])
    expect(text(planRemoval(socket, layout, { isStale }))).toEqual(["delete element containers { 10.1.0.2 }"])
  })
})
