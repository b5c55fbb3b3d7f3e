import { expect, test } from "bun:test"
import { type Content, printRestore, type Rule } from "../../../pkg/iptables/mod.ts"
import { AF_INET, AF_INET6, type Owner } from "../../../pkg/types/mod.ts"
import type { MappedAddress, Mapping, PortmapSpec } from "../mapping.ts"
import { findMissing, planAdd, planDelete, planGc } from "./plan.ts"
import { dnatChain, type IptablesRules, iptablesRules, isJumpCommentOf } from "./rules.ts"

const owner: Owner = { network: "tnet", containerId: "cid1", ifName: "eth0" }
const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }

function rulesOf(changes: Partial<Owner> = {}, mapping = web, lastByte = 2): IptablesRules {
  const mapped: MappedAddress = {
    family: AF_INET,
    address: { ip: Uint8Array.of(10, 1, 0, lastByte), prefix: 16 },
    mappings: [mapping],
  }
  const whose = { ...owner, ...changes }
  const spec: PortmapSpec = {
    owner: whose,
    netns: `/run/netns/${whose.containerId}`,
    addresses: [mapped],
    mappings: [mapping],
    snat: true,
    masqAll: false,
    conditions: { [AF_INET]: [], [AF_INET6]: [] },
    markMasqBit: 13,
    externalSetMarkChain: undefined,
    localnetLink: undefined,
    openedLink: undefined,
  }
  return iptablesRules(spec, mapped)
}

const empty: Content = { chains: [], rules: [] }

function tableWith(...all: IptablesRules[]): Content {
  const chains = new Set<string>()
  const rules: Rule[] = []
  for (const { shared, entries, chain, label, content, jumps } of all) {
    for (const one of shared) chains.add(one.chain)
    chains.add(chain)
    rules.push(...shared.flatMap((one) => [...one.rules]), ...entries, label, ...content, ...jumps)
  }
  return { chains: [...chains], rules }
}

// The expected values are from upstream's tests for this network and container.
test("the chain is named as upstream names it", () => {
  expect(dnatChain(owner)).toBe("CNI-DN-f67e00a966f2d1b8b0671")
})

test("the first ADD on a host makes upstream's chains and rules, with a label that says whose they are", () => {
  expect(
    printRestore(
      "nat",
      planAdd(rulesOf(), empty, () => false),
    ),
  ).toBe(`*nat
-N CNI-HOSTPORT-SETMARK
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
:CNI-DN-f67e00a966f2d1b8b0671 - [0:0]
-A CNI-DN-f67e00a966f2d1b8b0671 -m comment --comment "tnet/cid1/eth0 /run/netns/cid1"
-A CNI-DN-f67e00a966f2d1b8b0671 -s 10.1.0.0/16 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f67e00a966f2d1b8b0671 -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-f67e00a966f2d1b8b0671 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.1.0.2:80
-I POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"tnet\\" id: \\"cid1\\"" -m multiport --dports 8080 -j CNI-DN-f67e00a966f2d1b8b0671
COMMIT
`)
})

test("a repeated ADD rebuilds the container's chain, and nothing else", () => {
  const text = printRestore(
    "nat",
    planAdd(rulesOf(), tableWith(rulesOf()), () => false),
  )
  expect(text).not.toMatch(/^-(N|I)/m)
  expect(text).not.toMatch(/-j CNI-DN-/) // the jump to the chain keeps its position
})

test("what is there of the shared rules is not added again, and what is missing of them is", () => {
  const table = tableWith(rulesOf())
  const shared = rulesOf().shared.flatMap(({ rules }) => rules)
  const added = (rules: readonly Rule[]) =>
    printRestore(
      "nat",
      planAdd(rulesOf(), { ...table, rules }, () => false),
    )
      .split("\n")
      .filter((line) => /^-A CNI-HOSTPORT-(SETMARK|MASQ) /.test(line))
  expect(shared).toHaveLength(2)
  expect(added(table.rules)).toEqual([])
  const [first] = shared
  expect(added(table.rules.filter((rule) => rule.chain !== first?.chain))).toEqual([
    '-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000',
  ])
})

test("CHECK names the rule that is missing, and what is like it in its chain", () => {
  const rules = rulesOf()
  const table = tableWith(rules)
  expect(findMissing(rules, table, false)).toBeUndefined()
  const without = (word: string) => ({ ...table, rules: table.rules.filter((rule) => !rule.words.includes(word)) })
  const other = rulesOf({ containerId: "cid9" }, { ...web, hostPort: 81 }, 9)
  const dnat = findMissing(rules, without("10.1.0.2:80"), false)?.message
  expect(dnat).toStartWith(
    'Cannot find a port mapping of tnet/cid1/eth0 by iptables: expected rule "CNI-DN-f67e00a966f2d1b8b0671 -p tcp',
  )
  expect(dnat).toEndWith("; found no similar rule")
  const jumps = { ...table, rules: [...table.rules.filter((rule) => !rules.jumps.includes(rule)), ...other.jumps] }
  for (const hasConditions of [false, true]) {
    const jump = findMissing(rules, jumps, hasConditions)?.message ?? ""
    expect(jump).toContain('expected rule "CNI-HOSTPORT-DNAT')
    expect(jump).toEndWith("; found no similar rule")
  }
  const marked =
    findMissing(rules, { ...table, rules: [...without("8080").rules, ...rules.jumps] }, false)?.message ?? ""
  expect(marked).toContain("-s 10.1.0.0/16 -p tcp")
})

test("the rules of the container's other interface stay", () => {
  const other = rulesOf({ ifName: "net1" }, { ...web, hostPort: 9090 }, 9)
  const text = printRestore(
    "nat",
    planAdd(rulesOf(), tableWith(other), () => false),
  )
  expect(text).toContain("--dport 9090 -j DNAT --to-destination 10.1.0.9:80")
  expect(text).not.toContain("-D ")
  const both = tableWith(rulesOf(), other)
  expect(planDelete(both, owner)).toMatchObject({ chains: [], rules: { length: 4 } })
  const narrow = { ...both, chains: [dnatChain(owner)] }
  expect(planDelete({ ...narrow, rules: tableWith(other).rules }, { ...owner, ifName: "net1" }).chains).toEqual([
    dnatChain(owner),
  ])
})

test("a port of another container is refused with its name, unless it is gone or had this address before", () => {
  const held = tableWith(rulesOf({ containerId: "cid9" }, web, 9))
  expect(() => planAdd(rulesOf(), held, () => false)).toThrow(
    "Cannot map host port 8080/tcp to 10.1.0.2:80 for tnet/cid1/eth0: it is mapped to 10.1.0.9:80 for tnet/cid9/eth0",
  )
  const chain = dnatChain({ ...owner, containerId: "cid9" })
  expect(
    printRestore(
      "nat",
      planAdd(rulesOf(), held, ({ netns }) => netns === "/run/netns/cid9"),
    ),
  ).toContain(`-X ${chain}`)
  const former = tableWith(rulesOf({ containerId: "cid9" }))
  expect(
    printRestore(
      "nat",
      planAdd(rulesOf(), former, () => false),
    ),
  ).toContain(`-X ${chain}`)
})

test("a holder that only upstream knows is named as upstream names it", () => {
  const { label, ...theirs } = rulesOf({ containerId: "cid9" }, web, 9)
  const table = tableWith({ ...theirs, label })
  const unlabelled = { ...table, rules: table.rules.filter((rule) => rule !== label) }
  expect(() => planAdd(rulesOf(), unlabelled, () => false)).toThrow('for dnat name: "tnet" id: "cid9"')
})

test("GC takes what is not valid of this network, labelled or not, and leaves a chain without any sign alone", () => {
  const stale = rulesOf({ containerId: "cid2" })
  const foreign = rulesOf({ network: "other" })
  const all = tableWith(rulesOf(), stale, foreign)
  const chains = all.chains.filter((name) => name.startsWith("CNI-DN-"))
  const found = { ...all, chains: [...chains, "CNI-DN-000000000000000000000"] }
  expect(planGc(found, "tnet", [owner]).chains).toEqual([stale.chain])
  expect(planGc(found, "tnet", []).chains).toEqual([dnatChain(owner), stale.chain])
  const unlabelled = { ...found, rules: found.rules.filter((rule) => rule !== stale.label) }
  expect(planGc(unlabelled, "tnet", [owner]).chains).toEqual([stale.chain])
})

test("a chain that has its name by accident is another container's [S12]", () => {
  const table = tableWith(rulesOf())
  const foreign = table.rules.map((rule) => ({
    ...rule,
    words: rule.words.map((word) => word.replace('"tnet"', '"tne"')),
  }))
  expect(planDelete({ chains: [dnatChain(owner)], rules: foreign }, owner)).toEqual({ chains: [], rules: [] })
})

test.each([
  ['dnat name: "tnet" id: "cid1"', true],
  ['snat name: "tnet" id: "cid1"', true],
  ['xnat name: "tnet" id: "cid1"', false],
  ['dnat name: "tnet" id: "cid11"', false],
  ['dnat name: "tnet" id: "acid1"', false],
])("the comment %s is one of container cid1: %p", (comment, isIts) => {
  expect(isJumpCommentOf(comment, "cid1")).toBe(isIts)
})
