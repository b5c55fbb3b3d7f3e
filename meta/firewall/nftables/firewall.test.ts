import { describe, expect, test } from "bun:test"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { printTransaction } from "../../../pkg/nftables/mod.ts"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { refusing } from "../../../pkg/nftables/testing.ts"
import { ofOwner, ofStale } from "../../../pkg/rules/mod.ts"
import type { Owner } from "../../../pkg/types/mod.ts"
import { inForce, made, ruleSet, rulesOf, specOf, standingBy } from "../testing/firewall.ts"
import { addFirewall, canFilter, deleteFirewall as deleteSought, listAddresses } from "./firewall.ts"
import { planNew } from "./plan.ts"

const deleteFirewall = (socket: NetlinkSocket, owner: Owner, addresses: readonly Uint8Array[] = []) =>
  deleteSought(socket, { ...ofOwner(owner), addresses })
const gcFirewall = (socket: NetlinkSocket, network: string, valid: readonly Owner[]) =>
  deleteSought(socket, { ...ofStale(network, valid), addresses: [] })

const lists = ({ asked }: RuleSetKernel) => asked.filter((question) => question.startsWith("list"))
const owner = specOf(2).owner

/** Returns the rules that are added to a chain after it was flushed. */
function rulesIn({ sent }: RuleSetKernel, chain: string): string[] {
  const place = `chain inet cni_firewall ${chain}`
  const lines = sent.flat().slice(sent.flat().indexOf(`flush ${place}`))
  return lines.flatMap((line) => line.split(`add rule inet cni_firewall ${chain} `)[1] ?? [])
}

describe("rules for policies", () => {
  const all = [
    'iifname . oifname vmap @within comment "on one bridge"',
    'iifname @policed oifname @policed drop comment "from bridge to bridge"',
    'goto admit comment "all others"',
  ]

  test("come with the first bridge that has one, before all others of their chain", () => {
    const kernel = new RuleSetKernel(ruleSet(...made(specOf(3))))
    addFirewall(kernel.socket, specOf(2, "same-bridge"))
    expect(rulesIn(kernel, "forward")).toEqual(all)
  })

  test("come back where they were flushed while a bridge has one, and stay while another bridge has", () => {
    const groups = [...made(specOf(3, "same-bridge")), ...made(specOf(4)), ...inForce("same-bridge")]
    const rules = rulesOf(false, "CNI-ADMIN")
    const [without, flushed] = [rules, rules.filter(({ chain }) => chain !== "forward")]
    for (const [policy, found] of [
      ["same-bridge", without],
      ["same-bridge", flushed],
      ["open", flushed],
    ] as const) {
      const kernel = new RuleSetKernel({ ...ruleSet(...groups), rules: found })
      addFirewall(kernel.socket, specOf(2, policy, { owner: { ...owner, network: "net9" } }))
      expect(rulesIn(kernel, "forward")).toEqual(all)
    }
    const two = new RuleSetKernel(ruleSet(...groups, ...inForce("isolated", "br2")))
    deleteFirewall(two.socket, specOf(3).owner)
    expect(rulesIn(two, "forward")).toEqual([])
  })

  test("that a table of an earlier release has without policies stay as they are", () => {
    const former = { ...ruleSet(...made(specOf(3)), ...made(specOf(4))), rules: rulesOf(true, "CNI-ADMIN") }
    const plain = new RuleSetKernel(former)
    addFirewall(plain.socket, specOf(2))
    deleteFirewall(plain.socket, specOf(3).owner)
    expect(plain.sent.flat().filter((line) => !/^(create|delete) element/.test(line))).toEqual([])
    const policed = new RuleSetKernel(former)
    addFirewall(policed.socket, specOf(2, "same-bridge"))
    expect(rulesIn(policed, "forward")).toEqual([])
  })
})

describe("adding to a complete table", () => {
  test("creates the elements in one transaction, and reads no list", () => {
    const kernel = new RuleSetKernel(ruleSet(...made(specOf(3))))
    expect(addFirewall(kernel.socket, specOf(2))).toBe(true)
    expect(kernel.sent).toEqual([
      [
        'create element inet cni_firewall containers { 10.1.0.2 comment "net1/c2/eth0" }',
        'create element inet cni_firewall containers6 { fd00:1::2 comment "net1/c2/eth0" }',
      ],
    ])
    expect(lists(kernel)).toEqual([])
  })

  test("with a policy that is in force, too, and no rules without a host's side", () => {
    const kernel = new RuleSetKernel(ruleSet(...inForce("same-bridge"), ...made(specOf(3, "same-bridge"))))
    addFirewall(kernel.socket, specOf(2, "same-bridge"))
    expect(kernel.sent.flat().slice(2)).toEqual([
      'create element inet cni_firewall same_bridge { "br1" . "veth2" comment "net1/c2/eth0" }',
    ])
    expect(lists(kernel)).toEqual([])
    const inside = new RuleSetKernel(ruleSet())
    addFirewall(inside.socket, specOf(2, "open", { link: undefined }))
    expect([inside.sent.flat().length, lists(inside)]).toEqual([2, []])
  })

  test("notes beside each address how many there are, and where a policy and a zone were asked for", () => {
    const notesOf = (...of: [Parameters<typeof specOf>[1], string?]) => {
      const plan = planNew(new RuleSetKernel(ruleSet(...inForce("same-bridge"))).socket, specOf(2, of[0]), of[1])
      return plan?.flatMap((operation) => ("elements" in operation ? operation.elements.map(({ note }) => note) : []))
    }
    expect(notesOf("same-bridge")).toEqual(["2 br1/veth2", "2 br1/veth2", undefined])
    expect(notesOf("same-bridge", "trusted")?.[1]).toBe("2 br1/veth2 trusted")
    const open = planNew(new RuleSetKernel(ruleSet()).socket, specOf(2), "trusted") ?? []
    expect(printTransaction(open)).toContain("10.1.0.2")
    expect(open.flatMap((one) => ("elements" in one ? one.elements.map(({ note }) => note) : []))).toEqual([
      "2 - trusted",
      "2 - trusted",
    ])
  })

  test("is planned again from what there is when an address is held, and begins again when others have come in between", () => {
    const held = made({ ...specOf(2), owner: { ...owner, network: "net9" } })
    const kernel = new RuleSetKernel(ruleSet(...held, ...made(specOf(3))), "EEXIST", "ERESTART")
    expect(addFirewall(kernel.socket, specOf(2))).toBe(true)
    expect(kernel.sent).toEqual([
      [
        'add set inet cni_firewall containers_standby { type ipv4_addr . inet_service; comment "waiting for containers"; }',
        'create element inet cni_firewall containers_standby { 10.1.0.2 . 1 comment "net1/c2/eth0" }',
        'add set inet cni_firewall containers6_standby { type ipv6_addr . inet_service; comment "waiting for containers6"; }',
        'create element inet cni_firewall containers6_standby { fd00:1::2 . 1 comment "net1/c2/eth0" }',
      ],
    ])
  })

  test("takes away what this attachment has elsewhere, and what its network has left at the addresses", () => {
    const former = { ...specOf(9), owner }
    const left = made({ ...specOf(2), owner: { ...owner, containerId: "old" } })
    const others = standingBy(made({ ...specOf(2), owner: { ...owner, network: "net9" } }), 1)
    const kernel = new RuleSetKernel(ruleSet(...made(former), ...left, ...others), "EEXIST")
    addFirewall(kernel.socket, specOf(2))
    expect(kernel.sent.flat()).toEqual([
      "delete element inet cni_firewall containers { 10.1.0.2, 10.1.0.9 }",
      "delete element inet cni_firewall containers_standby { 10.1.0.2 . 1 }",
      "delete element inet cni_firewall containers6 { fd00:1::2, fd00:1::9 }",
      "delete element inet cni_firewall containers6_standby { fd00:1::2 . 1 }",
      'create element inet cni_firewall containers { 10.1.0.2 comment "net9/c2/eth0" }',
      'add set inet cni_firewall containers_standby { type ipv4_addr . inet_service; comment "waiting for containers"; }',
      'create element inet cni_firewall containers_standby { 10.1.0.2 . 1 comment "net1/c2/eth0" }',
      'create element inet cni_firewall containers6 { fd00:1::2 comment "net9/c2/eth0" }',
      'add set inet cni_firewall containers6_standby { type ipv6_addr . inet_service; comment "waiting for containers6"; }',
      'create element inet cni_firewall containers6_standby { fd00:1::2 . 1 comment "net1/c2/eth0" }',
    ])
  })

  test("once more, sends nothing", () => {
    for (const policy of ["open", "same-bridge", "isolated"] as const) {
      const kernel = new RuleSetKernel(
        ruleSet(...made(specOf(2, policy)), ...(policy === "open" ? [] : inForce(policy))),
        ...(policy === "isolated" ? [] : ["EEXIST"]),
      )
      expect(addFirewall(kernel.socket, specOf(2, policy))).toBe(true)
      expect(kernel.sent.flat()).toEqual([])
    }
  })

  test("to a kernel that has no filters on bridges, does without and says so", () => {
    const kernel = new RuleSetKernel(ruleSet(...inForce("isolated")), "EOPNOTSUPP")
    expect(addFirewall(kernel.socket, specOf(2, "isolated"))).toBe(false)
    expect(kernel.sent.flat().slice(2)).toEqual([
      'add element inet cni_firewall isolated { "br1" . "veth2" comment "net1/c2/eth0" }',
    ])
    const whole = new RuleSetKernel(ruleSet(...inForce("isolated")), "EEXIST")
    expect(addFirewall(whole.socket, specOf(2, "isolated"))).toBe(true)
    expect(whole.sent.flat().slice(3, 5)).toEqual([
      'add table bridge cni_firewall { comment "CNI: elements are commented as in inet"; }',
      'add set bridge cni_firewall isolated { type ifname; comment "ports isolated from one another"; }',
    ])
  })
})

describe("deleting", () => {
  const known = specOf(2).addresses
  const many = (count: number) => Array.from({ length: count }, (_, at) => made(specOf(20 + at))).flat()

  test.each([1, 9, 10, 11, 200])(
    "asks for what it is told and what is noted there: no list is read among %d",
    (count) => {
      const kernel = new RuleSetKernel(ruleSet(...made(specOf(2)), ...many(count)))
      expect(deleteFirewall(kernel.socket, owner, known).map(({ key }) => key[0])).toEqual([...known])
      expect(kernel.sent).toEqual([
        [
          "delete element inet cni_firewall containers { 10.1.0.2 }",
          "delete element inet cni_firewall containers6 { fd00:1::2 }",
        ],
      ])
    },
  )

  test("finds by its name what it was not told, or wrongly", () => {
    const [own, wrong, others] = [known.slice(0, 1), specOf(9).addresses, specOf(20).addresses]
    for (const addresses of [[], wrong, own, [...known, ...wrong], others, [...own, ...others.slice(1)]]) {
      const kernel = new RuleSetKernel(ruleSet(...made(specOf(2)), ...many(20)))
      expect(deleteFirewall(kernel.socket, owner, addresses)).toHaveLength(2)
      expect(kernel.sent).toEqual([
        [
          "delete element inet cni_firewall containers { 10.1.0.2 }",
          "delete element inet cni_firewall containers6 { fd00:1::2 }",
        ],
      ])
    }
  })

  test("takes what was asked for along, and the bridge's policy with the last that asks", () => {
    const groups = [...made(specOf(2, "same-bridge")), ...inForce("same-bridge"), ...many(1)]
    for (const addresses of [known, []]) {
      const kernel = new RuleSetKernel(ruleSet(...groups))
      deleteFirewall(kernel.socket, owner, addresses)
      expect(kernel.sent.flat().slice(2, 5)).toEqual([
        'delete element inet cni_firewall same_bridge { "br1" . "veth2" }',
        'delete element inet cni_firewall within { "br1" . "br1" }',
        'delete element inet cni_firewall policed { "br1" }',
      ])
      expect(rulesIn(kernel, "forward")).toEqual(['goto admit comment "all others"'])
      const shared = new RuleSetKernel(ruleSet(...groups, ...made(specOf(3, "same-bridge"))))
      deleteFirewall(shared.socket, owner, addresses)
      expect(shared.sent.flat().slice(2)).toEqual(['delete element inet cni_firewall same_bridge { "br1" . "veth2" }'])
    }
  })

  test("of an isolated container lets its port go, and the table of ports with the last", () => {
    const groups = [...made(specOf(2, "isolated")), ...inForce("isolated"), ...many(1)]
    const alone = new RuleSetKernel(ruleSet(...groups))
    deleteFirewall(alone.socket, owner, known)
    expect(alone.sent.flat()).toContain("delete table bridge cni_firewall")
    expect(rulesIn(alone, "forward")).toEqual(['goto admit comment "all others"'])
    const shared = new RuleSetKernel(ruleSet(...groups, ...made(specOf(3, "isolated"))))
    deleteFirewall(shared.socket, owner, known)
    expect(shared.sent.flat().slice(2)).toEqual([
      'delete element inet cni_firewall isolated { "br1" . "veth2" }',
      'delete element bridge cni_firewall isolated { "veth2" }',
    ])
  })

  test("of the last takes the tables, but not an administrator's rules", () => {
    for (const addresses of [known, []]) {
      const kernel = new RuleSetKernel(ruleSet(...made(specOf(2, "isolated")), ...inForce("isolated")))
      expect(deleteFirewall(kernel.socket, owner, addresses)).toHaveLength(2)
      expect(kernel.sent).toEqual([["delete table inet cni_firewall", "delete table bridge cni_firewall"]])
      const rules = ruleSet(...made(specOf(2)))
      const site = { family: 1, table: "cni_firewall", chain: "CNI-ADMIN", handle: 99n, comment: "", expressions: [] }
      const kept = new RuleSetKernel({ ...rules, rules: [...rules.rules, site] })
      deleteFirewall(kept.socket, owner, addresses)
      expect(kept.sent.flat().every((line) => line.startsWith("delete element"))).toBe(true)
    }
  })

  test("lets the next in line come into force, and takes the emptied set of those that stood by", () => {
    const next = standingBy(made({ ...specOf(2), owner: { ...owner, network: "net9" } }), 1)
    const kernel = new RuleSetKernel(ruleSet(...made(specOf(2)), ...next))
    deleteFirewall(kernel.socket, owner, known)
    expect(kernel.sent.flat()).toContain(
      'create element inet cni_firewall containers { 10.1.0.2 comment "net9/c2/eth0" }',
    )
    expect(kernel.sent.flat().slice(-2)).toEqual([
      "delete set inet cni_firewall containers_standby",
      "delete set inet cni_firewall containers6_standby",
    ])
  })

  test("of nothing sends nothing, and a refusal is an error", () => {
    const kernel = new RuleSetKernel(ruleSet(...many(1)))
    expect(deleteFirewall(kernel.socket, owner, known)).toEqual([])
    expect(kernel.sent.flat()).toEqual([])
    expect(() => deleteFirewall(refusing("EPERM") as NetlinkSocket, owner)).toThrow("EPERM")
    const refused = new RuleSetKernel(ruleSet(...made(specOf(2)), ...many(1)), "EINVAL")
    expect(() => deleteFirewall(refused.socket, owner)).toThrow("EINVAL")
  })

  test("by GC takes what is not valid of the network", () => {
    const kernel = new RuleSetKernel(ruleSet(...made(specOf(2)), ...made(specOf(3)), ...made(specOf(4))))
    expect(gcFirewall(kernel.socket, "net1", [owner]).map(({ comment }) => comment)).toEqual([
      "net1/c3/eth0",
      "net1/c4/eth0",
      "net1/c3/eth0",
      "net1/c4/eth0",
    ])
    expect(kernel.sent.flat()).toEqual([
      "delete element inet cni_firewall containers { 10.1.0.3, 10.1.0.4 }",
      "delete element inet cni_firewall containers6 { fd00:1::3, fd00:1::4 }",
    ])
  })
})

test("addresses are listed with those that stand by", () => {
  const next = standingBy(made({ ...specOf(2), owner: { ...owner, network: "net9" } }), 1)
  const { socket } = new RuleSetKernel(ruleSet(...made(specOf(2), "home"), ...next))
  expect(listAddresses(socket).map(({ comment, note }) => [comment, note])).toEqual([
    ["net1/c2/eth0", "2 - home"],
    ["net9/c2/eth0", "2"],
    ["net1/c2/eth0", "2 - home"],
    ["net9/c2/eth0", "2"],
  ])
  expect(listAddresses(socket, [new TextEncoder().encode("net9/")])).toHaveLength(2)
  expect(listAddresses(new RuleSetKernel({ sets: [] }).socket)).toEqual([])
})

test("whether the kernel can filter is tried where no table is in place", () => {
  const complete = new RuleSetKernel(ruleSet(), "EPERM")
  expect(canFilter(complete.socket, "CNI-ADMIN")).toBe(true)
  expect(canFilter(new RuleSetKernel({ sets: [] }, "EEXIST").socket, "CNI-ADMIN")).toBe(true)
  expect(canFilter(new RuleSetKernel({ sets: [] }, "ENOENT").socket, "CNI-ADMIN")).toBe(false)
  expect(() => canFilter(new RuleSetKernel({ sets: [] }, "EPERM").socket, "CNI-ADMIN")).toThrow("EPERM")
})
