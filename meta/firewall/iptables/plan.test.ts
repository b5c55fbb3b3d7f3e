import { describe, expect, test } from "bun:test"
import { type Change, type Content, printRestore, printRule, type Rule } from "../../../pkg/iptables/mod.ts"
import type { Policy } from "../config.ts"
import { findMissing, type IptablesSpec, planAcceptMarked, planAdd, planRemove } from "./plan.ts"

function specFor(id: string, ip: string, policy: Policy = "open", bridge = "br0"): IptablesSpec {
  const owner = `lab/${id}/eth0`
  const labels = [{ ip: `${ip}/32`, owner, policy, bridge: policy === "open" ? undefined : bridge }]
  return { network: "lab", owner, adminChain: "CNI-ADMIN", labels, policy, bridge }
}

const empty: Content = { chains: ["INPUT", "FORWARD", "OUTPUT"], rules: [] }

/** Returns the table after iptables-restore has made these changes. */
function applied({ chains, rules }: Content, changes: readonly Change[]): Content {
  const [names, list] = [[...chains], [...rules]]
  const at = (rule: Rule) => list.findIndex((one) => JSON.stringify(one) === JSON.stringify(rule))
  for (const change of changes) {
    if (change.verb === "create") names.push(change.chain)
    else if (change.verb === "append") list.push(change.rule)
    else if (change.verb === "prepend") list.unshift(change.rule)
    else if (change.verb === "remove") {
      expect(at(change.rule)).not.toBe(-1)
      list.splice(at(change.rule), 1)
    }
  }
  return { chains: names, rules: list }
}

function added(found: Content, ...specs: IptablesSpec[]): Content {
  return specs.reduce((table, spec) => applied(table, planAdd(spec, table)), found)
}

function removed(found: Content, owner: string): Content {
  const stale = { isOwnerStale: (one: string) => one === owner, addresses: [], bridges: [] }
  const { rules } = planRemove(found, stale)
  return { ...found, rules: found.rules.filter((rule) => !rules.includes(rule)) }
}

const linesOf = ({ rules }: Content, chain: string) =>
  rules
    .filter((rule) => rule.chain === chain)
    .map(({ words }) => words.filter((word) => !/^(-m|comment|--comment|CNI fire.*)$/.test(word)).join(" "))

test("the first ADD on a host makes upstream's chains and rules, and a label", () => {
  expect(printRestore("filter", planAdd(specFor("c1", "10.1.0.2"), empty))).toBe(
    [
      "*filter",
      "-N CNI-FORWARD",
      "-N CNI-ADMIN",
      '-I FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
      '-I CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN',
      "-N CNI-FIREWALL-OWNERS",
      "-A CNI-FORWARD -d 10.1.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
      "-A CNI-FORWARD -s 10.1.0.2/32 -j ACCEPT",
      "-A CNI-FIREWALL-OWNERS -s 10.1.0.2/32 -m comment --comment lab/c1/eth0",
      "COMMIT",
      "",
    ].join("\n"),
  )
})

test("doing it again changes nothing, with a policy neither", () => {
  for (const policy of ["open", "same-bridge", "isolated"] as const) {
    const spec = specFor("c1", "10.1.0.2", policy)
    const table = added(empty, spec)
    expect(planAdd(spec, table)).toEqual([])
    expect(findMissing(spec, table)).toBeUndefined()
  }
})

test("a jump that upstream has put above the policies goes below them", () => {
  const spec = specFor("c1", "10.1.0.2", "same-bridge")
  const table = added(empty, spec)
  const swapped = { ...table, rules: [...table.rules].reverse() }
  expect(findMissing(spec, swapped)).toContain("before")
  expect(linesOf(added(swapped, spec), "FORWARD")).toEqual(["-j CNI-ISOLATION-STAGE-1", "-j CNI-FORWARD"])
})

test("what others append to the chains of policies comes before the last rule again, which is there once", () => {
  const spec = specFor("c1", "10.1.0.2", "same-bridge")
  const table = added(empty, spec)
  const theirs: Rule = { chain: "CNI-ISOLATION-STAGE-1", words: ["-i", "br9", "-j", "DROP"] }
  const longer = { ...table, rules: [...table.rules, theirs] }
  expect(linesOf(added(longer, spec), "CNI-ISOLATION-STAGE-1")).toEqual([
    "-i br0 ! -o br0 -j CNI-ISOLATION-STAGE-2",
    "-i br9 -j DROP",
    "-j RETURN",
  ])
})

describe("a rule that is missing is named:", () => {
  const spec = specFor("c1", "10.1.0.2", "isolated")
  const table = added(empty, spec)
  const needed = table.rules.filter(({ chain, words }) => chain !== "CNI-FIREWALL-OWNERS" && !words.includes("RETURN"))
  test.each(needed.map((rule) => [printRule(rule), rule] as const))("%s", (text, rule) => {
    expect(findMissing(spec, { ...table, rules: table.rules.filter((one) => one !== rule) })).toBe(`rule "${text}"`)
  })

  test("and where rules of others come before the administrator's", () => {
    const theirs: Rule = { chain: "CNI-FORWARD", words: ["-j", "LOG"] }
    const jump = 'rule "CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN" first in'
    expect(findMissing(spec, { ...table, rules: [theirs, ...table.rules] })).toBe(`${jump} CNI-FORWARD`)
  })
})

test("of a bridge's policies the strictest is in force, and goes with the last that asks for it", () => {
  const [weak, strict] = [
    specFor("c1", "10.1.0.2", "same-bridge"),
    { ...specFor("c2", "10.1.0.3", "isolated"), network: "x", owner: "x/c2/eth0" },
  ]
  const labels = strict.labels.map((label) => ({ ...label, owner: strict.owner }))
  const both = added(empty, weak, { ...strict, labels })
  const isolated = ["-i br0 -o br0 -j DROP", "-i br0 ! -o br0 -j CNI-ISOLATION-STAGE-2", "-j RETURN"]
  expect(linesOf(both, "CNI-ISOLATION-STAGE-1")).toEqual(isolated)
  expect(linesOf(added(both, weak), "CNI-ISOLATION-STAGE-1")).toEqual(isolated)
  const lowered = removed(both, "x/c2/eth0")
  expect(linesOf(lowered, "CNI-ISOLATION-STAGE-1")).toEqual(isolated.slice(1))
  const none = removed(lowered, "lab/c1/eth0")
  expect(linesOf(none, "CNI-ISOLATION-STAGE-1")).toEqual(["-j RETURN"])
  expect(linesOf(none, "CNI-ISOLATION-STAGE-2")).toEqual(["-j RETURN"])
})

test("another policy of the network is that of all its containers on the bridge", () => {
  const table = added(empty, specFor("c1", "10.1.0.2", "isolated"), specFor("c2", "10.1.0.3", "open"))
  expect(linesOf(table, "CNI-ISOLATION-STAGE-1")).toEqual(["-j RETURN"])
  const again = added(table, specFor("c3", "10.1.0.4", "same-bridge"))
  expect(linesOf(again, "CNI-ISOLATION-STAGE-1")).toEqual(["-i br0 ! -o br0 -j CNI-ISOLATION-STAGE-2", "-j RETURN"])
  const labels = (found: Content) => linesOf(found, "CNI-FIREWALL-OWNERS")
  expect(labels(table)).toEqual(["-s 10.1.0.2/32 lab/c1/eth0", "-s 10.1.0.3/32 lab/c2/eth0"])
  const strict = added(table, specFor("c1", "10.1.0.2", "same-bridge"), specFor("c3", "10.1.0.4", "isolated"))
  expect(labels(strict).slice(1)).toEqual([
    "-s 10.1.0.2/32 lab/c1/eth0 isolated br0",
    "-s 10.1.0.4/32 lab/c3/eth0 isolated br0",
  ])
})

test("an address that another container has by now stays when the first one's DEL comes late", () => {
  const table = added(empty, specFor("c1", "10.1.0.2"), specFor("c2", "10.1.0.2"))
  expect(removed(table, "lab/c1/eth0")).toEqual(table)
  expect(linesOf(removed(removed(table, "lab/c1/eth0"), "lab/c2/eth0"), "CNI-FORWARD")).toEqual(["-j CNI-ADMIN"])
})

test("an address that two networks have stays until the last of them lets it go, also when DEL is told it", () => {
  const first = specFor("c1", "10.1.0.2")
  const labels = first.labels.map((label) => ({ ...label, owner: "x/c2/eth0" }))
  const table = added(empty, first, { ...first, network: "x", owner: "x/c2/eth0", labels })
  const isOwnerStale = (owner: string) => owner === "lab/c1/eth0"
  const { rules } = planRemove(table, { isOwnerStale, addresses: ["10.1.0.2/32"], bridges: [] })
  expect(rules.map(({ chain }) => chain)).toEqual(["CNI-FIREWALL-OWNERS"])
})

test("upstream's rules go by the addresses, and keep a bridge's policy for as long as there are others of theirs", () => {
  const spec = specFor("c1", "10.1.0.2", "same-bridge")
  const table = added(empty, spec, specFor("c2", "10.1.0.3", "same-bridge"))
  const upstreams = { ...table, rules: table.rules.filter(({ chain }) => chain !== "CNI-FIREWALL-OWNERS") }
  const remove = (found: Content, ip: string) => {
    const { rules } = planRemove(found, { isOwnerStale: () => false, addresses: [`${ip}/32`], bridges: ["br0"] })
    return { ...found, rules: found.rules.filter((rule) => !rules.includes(rule)) }
  }
  const one = remove(upstreams, "10.1.0.2")
  expect(linesOf(one, "CNI-FORWARD")).toHaveLength(3)
  expect(linesOf(one, "CNI-ISOLATION-STAGE-2")).toHaveLength(2)
  expect(linesOf(remove(one, "10.1.0.3"), "CNI-ISOLATION-STAGE-2")).toHaveLength(1)
})

test("the rule that goes by the mark is one for all, behind the administrator's", () => {
  const table = applied(empty, planAcceptMarked("CNI-ADMIN", empty))
  expect(linesOf(table, "CNI-FORWARD")).toEqual(["-j CNI-ADMIN", "mark --mark 0x1000/0x1000 -j ACCEPT"])
  expect(planAcceptMarked("CNI-ADMIN", table)).toEqual([])
})
