import { describe, expect, test } from "bun:test"
import { ifnameValue } from "../../../pkg/nftables/mod.ts"
import { type KernelRule, RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { ofOwner } from "../../../pkg/rules/mod.ts"
import { AF_INET } from "../../../pkg/types/mod.ts"
import { contextOf, type Group, made, others, owner, ruleSet, web } from "../testing/hostports.ts"
import { upstreamHostports } from "./backend.ts"
import { conditionsChain } from "./conditions.ts"
import { deleteHostports } from "./delete.ts"
import { tableLayout } from "./table.ts"

const layout = tableLayout(AF_INET)
const ours = made(owner, ["10.1.0.2/16"], [web])

/** Returns the records of interfaces. `links` are names that no machine has, so that no sysctl is changed. */
function recorded(set: "localnetLinks" | "localnetGuarded", ...links: string[]): Group {
  return { set: layout[set] ?? expect.unreachable(), elements: links.map((link) => ({ key: [ifnameValue(link)] })) }
}

describe("the last mapping, where route_localnet was switched on for it,", () => {
  test("takes table and record along when iptables does not need the setting", () => {
    const kernel = new RuleSetKernel(ruleSet(...ours, recorded("localnetLinks", "not-there0")))
    deleteHostports(contextOf(kernel, false), ofOwner(owner), [web])
    expect(kernel.sent).toEqual([["delete table ip cni_hostports"]])
  })

  test("leaves the guard and the record when iptables needs it", () => {
    const kernel = new RuleSetKernel(ruleSet(...ours, recorded("localnetLinks", "not-there0", "not-there1")))
    deleteHostports(contextOf(kernel, true), ofOwner(owner), [web])
    const [sent = []] = kernel.sent
    expect(sent.map((line) => line.split(" ").slice(0, 5).join(" ").replace(" {", ""))).toEqual([
      "delete table ip cni_hostports",
      "add table ip cni_hostports",
      "add chain ip cni_hostports raw",
      "flush chain ip cni_hostports raw",
      "add rule ip cni_hostports raw",
      "add rule ip cni_hostports raw",
      "add set ip cni_hostports localnet_links",
      "add element ip cni_hostports localnet_links",
      "add set ip cni_hostports localnet_links",
      "add element ip cni_hostports localnet_links",
    ])
    for (const rule of sent.slice(4, 6)) expect(rule).toContain("drop")
    expect([sent[7], sent[9]].join()).toContain('{ "not-there0" }')
    expect([sent[7], sent[9]].join()).toContain('{ "not-there1" }')
  })

  test("of a deleted interface leaves no guard for what was on before", () => {
    const kernel = new RuleSetKernel(ruleSet(...ours, recorded("localnetGuarded", "not-there0")))
    deleteHostports(contextOf(kernel, true), ofOwner(owner), [web])
    expect(kernel.sent).toEqual([["delete table ip cni_hostports"]])
  })
})

/** Returns the rule of an attachment with conditions, which jumps to the attachment's own chain. */
function conditionOf(comment: string, handle: bigint): KernelRule {
  const { name } = conditionsChain(layout, comment)
  const verdict = { code: 0xfffffffd, chain: name } // NFT_JUMP, -3
  const expressions: KernelRule["expressions"] = [{ name: "immediate", data: { dreg: 0, data: { verdict } } }]
  return { family: 2, table: "cni_hostports", chain: "conditions", handle, comment, expressions }
}

test("conditions go with the mappings, the rule and the chain that it leads to; those of others stay", () => {
  // Mappings with conditions are added by `nft`, which writes no notes.
  const noteless = ours.map(({ set, elements }) => ({
    set,
    elements: elements.map(({ note: _, ...element }) => element),
  }))
  const rules = [conditionOf("lab/c2/eth0", 4n), conditionOf("lab/c1/eth0", 5n)]
  const chains = ["lab/c1/eth0", "lab/c2/eth0"].map((comment) => conditionsChain(layout, comment).name)
  const kernel = new RuleSetKernel({ ...ruleSet(...noteless, ...others(1)), rules, chains })
  deleteHostports(contextOf(kernel), ofOwner(owner), [web])
  expect(kernel.sent).toEqual([
    [
      "add chain ip cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
      "delete rule ip cni_hostports conditions handle 5",
      `flush chain ip cni_hostports ${chains[0]}`,
      `delete chain ip cni_hostports ${chains[0]}`,
      "delete element ip cni_hostports ports { tcp . 8080 }",
      "delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }",
      "delete element ip cni_hostports localhost { 10.1.0.2 }",
    ],
  ])
})

describe("what the Go suite has left", () => {
  const ip = (last: number) => Uint8Array.of(10, 1, 0, last)
  const rule = (chain: string, handle: bigint, comment: string, address: Uint8Array, family = 2): KernelRule => {
    const value = { value: address }
    const expressions: KernelRule["expressions"] =
      chain === "masquerading"
        ? [{ name: "cmp", data: { sreg: 1, op: 0, data: value } }]
        : [{ name: "immediate", data: { dreg: 1, data: value } }]
    return { family, table: "cni_hostport", chain, handle, comment, expressions }
  }
  const rules = [
    rule("hostports", 1n, "c1", ip(2)),
    rule("hostip_hostports", 2n, "c1", ip(2)),
    rule("masquerading", 3n, "c1", ip(2)),
    rule("hostports", 4n, "c1", ip(3)), // an attachment of the same container to another network
    rule("hostports", 5n, "c11", ip(2)),
    rule("hostports", 6n, "ac1", ip(2)),
    rule("other", 7n, "c1", ip(2)),
    rule("hostports", 8n, "c1", new Uint8Array(16).with(15, 2), 10),
  ]
  const deleted = (addresses: Uint8Array[]) => {
    const kernel = new RuleSetKernel({ sets: [], rules })
    const filter = { socket: kernel.socket, hasTable: () => true, forgetTables() {} }
    upstreamHostports(filter).remove(owner, { mappings: [], addresses })
    return kernel.sent.flat()
  }

  test("for the addresses goes, and nothing of others", () => {
    expect(deleted([ip(2)])).toEqual([
      "delete rule ip cni_hostport hostports handle 1",
      "delete rule ip cni_hostport hostip_hostports handle 2",
      "delete rule ip cni_hostport masquerading handle 3",
    ])
    expect(deleted([new Uint8Array(16).with(15, 2)])).toEqual(["delete rule ip6 cni_hostport hostports handle 8"])
    expect(deleted([ip(9)])).toEqual([])
  })

  test("for the container goes where no address is known", () => {
    expect(deleted([])).toEqual([
      "delete rule ip cni_hostport hostports handle 1",
      "delete rule ip cni_hostport hostports handle 4",
      "delete rule ip cni_hostport hostip_hostports handle 2",
      "delete rule ip cni_hostport masquerading handle 3",
      "delete rule ip6 cni_hostport hostports handle 8",
    ])
  })
})
