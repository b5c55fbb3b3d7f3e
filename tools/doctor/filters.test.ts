import { describe, expect, test } from "bun:test"
import type { FilterView } from "../node/mod.ts"
import { checkDrops } from "./filters.ts"
import { checkOwnTables } from "./own-tables.ts"
import {
  accept,
  attachmentOf,
  baseOf,
  cachedOf,
  compare,
  drop,
  jump,
  linkOf,
  memberOf,
  type Part,
  patientOf,
  ruleOf,
  told,
} from "./testing/patients.ts"

const FORWARD = "ip filter FORWARD"
const [CT_STATE_ESTABLISHED_RELATED, NEQ] = [6, 1] // <linux/netfilter/nf_conntrack_common.h>, NFT_CMP_NEQ
const [IIF, IIFNAME, OIFNAME] = [4, 6, 7] // NFT_META_*, <linux/netfilter/nf_tables.h>
const meta = (key: number): Part => ["meta", { key }]
const text = (name: string) => compare(...new TextEncoder().encode(name))
const name = (key: number, device: string): Part[] => [meta(key), text(device.padEnd(16, "\0"))]
const counter: Part = ["counter", {}]
const u32le = (value: number) => Uint8Array.of(value, 0, 0, 0)
const established: Part[] = [
  ["ct", { key: 0 }],
  ["bitwise", { mask: { value: u32le(CT_STATE_ESTABLISHED_RELATED) } }],
  ["cmp", { op: NEQ, data: { value: u32le(0) } }],
]
const goto = (chain: string): Part => ["immediate", { data: { verdict: { code: -4 >>> 0, chain } } }]

describe("chains of others that drop every packet of containers", () => {
  const links = [linkOf(3, "cni0", { kind: "bridge" })]
  const attachments = [attachmentOf({ addresses: ["10.85.0.2/24"], link: linkOf(4, "veth1", { master: 3 }) })]
  const members = [memberOf({ type: "bridge" })]
  const found = (rules: FilterView["rules"], base: Parameters<typeof baseOf>[1] = {}, place = FORWARD) =>
    told(checkDrops(patientOf({ links, attachments, members, filter: { bases: [baseOf(place, base)], rules } })))
  const WHY =
    "a drop is final, also where other tables accept: containers reach nothing beyond their bridge, published ports do not answer"

  test("are told with the rule or the policy, and the remedy is words", () => {
    expect(found([ruleOf(FORWARD, 7, ...name(IIFNAME, "cni0"), counter, drop)])).toEqual([
      `error forward-drop-rule
a rule in table ip filter, chain FORWARD drops every packet of containers of "cni0": chain FORWARD, handle 7
${WHY}
let packets that come by "cni0" or leave by it pass there, by the program that made it; "nft -a list chain ip filter FORWARD" shows it`,
    ])
    expect(found([], { policy: "drop" })).toEqual([
      `error forward-drop
table ip filter, chain FORWARD drops every packet of containers of "cni0", by its policy
${WHY}
let packets that come by "cni0" or leave by it pass there, by the program that made it; "nft -a list chain ip filter FORWARD" shows it`,
    ])
  })

  test.each<[boolean, string, Part[]]>([
    [true, "all", [drop]],
    [true, "all, with a counter, rejected", [counter, ["reject", new Uint8Array()]]],
    [true, "all that come in by the bridge", [...name(IIFNAME, "cni0"), drop]],
    [true, "all that come in by the bridge's number", [meta(IIF), compare(3, 0, 0, 0), drop]],
    [true, "all that go out by interfaces of a name's beginning", [meta(OIFNAME), text("cni"), drop]],
    [false, "those of another interface", [...name(IIFNAME, "docker0"), drop]],
    [false, "those from the bridge to another interface", [...name(IIFNAME, "cni0"), ...name(OIFNAME, "br1"), drop]],
    [false, "those to an address", [["payload", {}], compare(169, 254, 169, 254), drop]],
    [false, "those that a set has", [["lookup", { set: "s", sreg: 1 }], drop]],
    [false, "those over a limit", [["limit", new Uint8Array()], drop]],
    [false, "those over a quota", [["quota", new Uint8Array()], drop]],
    [false, "those that are not known", [["xt", new Uint8Array()], drop]],
    [false, "none", [...name(IIFNAME, "cni0"), accept]],
  ])("are such: %p, for a rule that drops %s", (isFound, _, parts) => {
    expect(found([ruleOf(FORWARD, 7, ...parts)])).toHaveLength(isFound ? 1 : 0)
  })

  test.each<[boolean, string, FilterView["rules"]]>([
    [false, "an accept of the bridge", [ruleOf(FORWARD, 1, ...name(IIFNAME, "cni0"), accept)]],
    [false, "an accept by the bridge's number", [ruleOf(FORWARD, 1, meta(IIF), compare(3, 0, 0, 0), accept)]],
    [false, "an accept of some packets", [ruleOf(FORWARD, 1, ["payload", {}], compare(0, 80), accept)]],
    [false, "a map of verdicts", [ruleOf(FORWARD, 1, meta(IIFNAME), ["lookup", { set: "m", sreg: 1, dreg: 0 }])]],
    [false, "an accept in another chain", [ruleOf(FORWARD, 1, jump("X")), ruleOf("ip filter X", 2, accept)]],
    [false, "a way to another chain for good", [ruleOf(FORWARD, 1, goto("X"))]],
    [true, "an accept of another interface", [ruleOf(FORWARD, 1, ...name(IIFNAME, "docker0"), accept)]],
    [true, "a chain that does nothing", [ruleOf(FORWARD, 1, jump("X")), ruleOf("ip filter X", 2, counter)]],
    [true, "an accept of connections that exist", [ruleOf(FORWARD, 1, ...established, accept)]],
    [
      false,
      "an accept of connections that exist, and of those that begin one way",
      [ruleOf(FORWARD, 1, ...established, accept), ruleOf(FORWARD, 2, ...name(IIFNAME, "cni0"), accept)],
    ],
  ])("are such by a policy: %p, behind %s", (isFound, _, rules) => {
    expect(found(rules, { policy: "drop" })).toHaveLength(isFound ? 1 : 0)
  })

  test("are found in chains that all packets are sent to, and not in those that some are", () => {
    const guard = ruleOf("ip filter GUARD", 9, ...name(IIFNAME, "cni0"), drop)
    expect(found([ruleOf(FORWARD, 1, jump("GUARD")), guard]).join()).toContain("chain GUARD, handle 9\n")
    expect(found([ruleOf(FORWARD, 1, ["payload", {}], compare(10), jump("GUARD")), guard])).toEqual([])
  })

  test("are looked for in filters that are not of plugins, in the containers' family, and where there are containers", () => {
    const rules = [ruleOf(FORWARD, 7, drop), ruleOf("ip cni_x c", 7, drop), ruleOf("ip6 filter FORWARD", 8, drop)]
    expect(found(rules, { hook: "input" })).toEqual([])
    expect(found(rules, { type: "nat" })).toEqual([])
    expect(found(rules, {}, "ip cni_x c")).toEqual([])
    expect(found(rules, {}, "ip6 filter FORWARD")).toEqual([])
    expect(found(rules, { hook: "prerouting" })).toHaveLength(1)
    const filter = { bases: [baseOf(FORWARD)], rules }
    expect(checkDrops(patientOf({ links, members, filter }))).toEqual([])
    expect(checkDrops(patientOf({ links, members, attachments }))).toEqual([])
  })

  test.each([
    ["docker", [ruleOf(FORWARD, 1, jump("DOCKER-USER"))], FORWARD, '"-i cni0 -j ACCEPT"'],
    ["ufw", [], "ip filter ufw-forward", '"ufw route allow in on cni0"'],
    ["kube-proxy", [ruleOf("ip filter KUBE-FORWARD", 1, accept)], FORWARD, "leave by it pass there, by"],
    ["firewalld", [], "inet firewalld filter_FORWARD", '"cni0" belongs into a zone'],
  ])("of %s come with where that wants to be told", (maker, rules, place, words) => {
    const [text] = found(rules, { policy: "drop" }, place)
    expect(text).toContain(`(made by ${maker}) drops every packet`)
    expect(text).toContain(words)
  })

  test("in another table say nothing of who has made this one", () => {
    const others = [ruleOf("ip nat DOCKER", 1, accept), ruleOf("ip filter mufw-x", 1, accept)]
    expect(found(others, { policy: "drop" }).join()).not.toContain("made by")
  })
})

test("a table of ours that is dormant is told, and no other", () => {
  const dormant = [
    { family: "inet", name: "cni_firewall" },
    { family: "ip", name: "mine" },
  ] as const
  expect(told(checkOwnTables(patientOf({ filter: { bases: [], rules: [], dormant } })))).toEqual([
    `error table-dormant
table inet cni_firewall is dormant: no packet comes through its chains
what its rules do for containers does not happen: masquerade, published ports, policies, the check of MACs
nft add table inet cni_firewall`,
  ])
  expect(checkOwnTables(patientOf({ filter: { bases: [], rules: [] } }))).toEqual([])
  expect(checkOwnTables(patientOf({}))).toEqual([])
})

test("a table of ours that has lost the rules of a base chain is told once, with all that need them", () => {
  const cached = { ...cachedOf([{ type: "portmap" }]), isAlive: true }
  const of = (containerId: string, place = "ip cni_hostports ports") =>
    attachmentOf({ containerId, ...cached, rules: [{ place, backend: "nftables", owner: "" }] })
  const chain = (name: string) => ruleOf(`ip cni_hostports ${name}`, 1, accept)
  const tables = [{ family: "ip", name: "cni_hostports" }] as const
  const found = (names: string[], attachments = [of("c1"), of("c2")], more: Partial<FilterView> = {}) =>
    told(checkOwnTables(patientOf({ attachments, filter: { bases: [], rules: names.map(chain), tables, ...more } })))
  expect(found(["postrouting", "output"])).toEqual([
    `error table-incomplete
chain prerouting of table ip cni_hostports has no rules, and 2 containers need them: "pods/c1/eth0", "pods/c2/eth0"
packets do not come to what the table has of containers: masquerade and published ports do not work
cni reattach pods/c1/eth0`,
  ])
  expect(found(["postrouting", "output", "prerouting"])).toEqual([])
  expect(found([], [of("c1", "ip cni_masquerade containers")])).toEqual([])
  expect(found([], [of("c1")], { dormant: tables })[0]).toContain("table-dormant")
  expect(found([], [{ ...of("c1"), isAlive: false }])[0]).toEndWith(
    "the next ADD of a plugin that uses the table makes the rules anew",
  )
  expect(found(["prerouting"], [of("c1")])[0]).toContain("chains output, postrouting of table ip cni_hostports")
})
