import { describe, expect, test } from "bun:test"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { AF_INET, AF_INET6, formatIp } from "../../../pkg/types/mod.ts"
import type { PortmapSpec } from "../mapping.ts"
import {
  contextOf,
  type Group,
  made,
  oneAddress,
  others,
  owner,
  ruleSet,
  rulesOf,
  specOf,
  standingBy,
  web,
} from "../testing/hostports.ts"
import { addHostports, promoteNext, undoAddHostports } from "./add.ts"
import { tableLayout } from "./table.ts"

const spec: PortmapSpec = specOf(owner, ["10.1.0.2/16"], [web, oneAddress])
const created = [
  'create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }',
  'create element ip cni_hostports address_ports { 192.0.2.1 . tcp . 8443 comment "lab/c1/eth0" : 10.1.0.2 . 443 }',
  'create element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 comment "lab/c1/eth0" }',
  'create element ip cni_hostports localhost { 10.1.0.2 comment "lab/c1/eth0" }',
]
const complete = (...groups: readonly Group[]) => ({ ...ruleSet(...groups), rules: rulesOf(16) })

describe("mapping ports", () => {
  test("where everything else is in place sends the elements, and asks for none", () => {
    const kernel = new RuleSetKernel(complete(...others(20)))
    expect(addHostports(kernel.socket, spec)).toMatchObject({ created: [], replaced: [], ahead: [], localnet: [] })
    const [[table, ...elements] = []] = kernel.sent
    expect(table).toBe("add table ip cni_hostports") // the table may be dormant
    expect(elements).toEqual(created)
    expect(kernel.sent).toHaveLength(1)
    expect(kernel.asked).toEqual([])
  })

  test("on a host without mappings makes table, sets, chains and rules with them, in one transaction", () => {
    const kernel = new RuleSetKernel({ sets: [] })
    addHostports(kernel.socket, spec)
    expect(kernel.sent).toHaveLength(1)
    const [sent = []] = kernel.sent
    expect(sent[0]).toStartWith("add table ip cni_hostports {")
    expect(sent.filter((line) => line.includes("from beside the container"))).toEqual([expect.stringContaining("/16")])
    expect(sent.slice(-4)).toEqual(created)
  })

  test("for a prefix length that is new adds the rule for it, and one that is missing has all rules re-created", () => {
    const twenty = specOf(owner, ["10.1.0.2/20"], [web])
    const kernel = new RuleSetKernel(complete(...others(1)))
    addHostports(kernel.socket, twenty)
    expect(kernel.sent[0]?.[0]).toMatch(/^add rule ip cni_hostports postrouting .*from beside the container, \/20"$/)
    expect(kernel.sent[0]?.filter((line) => /^(add|flush) /.test(line))).toHaveLength(1)
    const without = new RuleSetKernel({ ...ruleSet(...others(1)), rules: rulesOf(16).slice(1) })
    addHostports(without.socket, twenty)
    const rules = without.sent[0]?.filter((line) => line.includes("from beside the container")) ?? []
    expect(rules.map((line) => /\/\d+(?="$)/.exec(line)?.[0])).toEqual(["/16", "/20"])
    expect(without.sent[0]?.filter((line) => line.startsWith("flush chain"))).not.toEqual([])
  })

  test("that another container has is refused, and nothing is sent", () => {
    const theirs = made({ ...owner, containerId: "c9" }, ["10.1.0.9/16"], [web], "/proc/self/ns/net")
    const kernel = new RuleSetKernel(complete(...theirs), "EEXIST")
    expect(() => addHostports(kernel.socket, spec)).toThrow(
      "Cannot map host port 8080/tcp to 10.1.0.2:80 for lab/c1/eth0: it is mapped to 10.1.0.9:80 for lab/c9/eth0",
    )
    expect(kernel.sent).toEqual([])
  })

  test("again sends nothing", () => {
    const kernel = new RuleSetKernel(complete(...made(owner, ["10.1.0.2/16"], [web, oneAddress])), "EEXIST")
    expect(addHostports(kernel.socket, spec)).toMatchObject({ created: [], replaced: [] })
    expect(kernel.sent).toEqual([])
  })

  test("that another attachment of the container has stands by, and says where the port leads", () => {
    const first = made({ ...owner, network: "net2", ifName: "eth1" }, ["10.2.0.9/16"], [web])
    const kernel = new RuleSetKernel(complete(...first), "EEXIST")
    const { ahead, mustPromote } = addHostports(kernel.socket, spec)
    expect([ahead.map(formatIp), mustPromote]).toEqual([["10.2.0.9"], undefined])
    expect(kernel.sent.flat()).toContain(
      'create element ip cni_hostports ports_standby { tcp . 8080 . 1 comment "lab/c1/eth0" : 10.1.0.2 . 80 }',
    )
    expect(kernel.asked.filter((question) => question.startsWith("list"))).toEqual([])
  })

  test("takes what this owner has elsewhere, and what has had its address in this network", () => {
    const old = { ...web, hostPort: 7000 }
    const former = { ...owner, containerId: "c0" }
    const groups = [
      ...made(owner, ["10.1.0.2/16"], [old]),
      ...made(former, ["10.1.0.2/16"], [{ ...web, hostPort: 7001 }]).slice(0, 1),
      ...made({ ...former, network: "net2" }, ["10.1.0.2/16"], [{ ...web, hostPort: 7002 }]).slice(0, 1),
    ]
    const kernel = new RuleSetKernel(complete(...groups), "EEXIST")
    addHostports(kernel.socket, spec)
    const text = kernel.sent.flat().join("\n")
    expect(text).toContain("delete element ip cni_hostports ports { tcp . 7000, tcp . 7001 }")
    expect(text).not.toContain("7002")
  })
})

describe("undoing it", () => {
  test("deletes what this owner has", () => {
    const before = complete(...others(1))
    const after = complete(...others(1), ...made(owner, ["10.1.0.2/16"], [web, oneAddress]))
    const kernel: RuleSetKernel = new RuleSetKernel(() => (kernel.sent.length === 0 ? before : after))
    const changes = addHostports(kernel.socket, spec)
    undoAddHostports(contextOf(kernel), spec, changes)
    expect(kernel.sent.at(-1)).toEqual([
      "add chain ip cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
      "delete element ip cni_hostports ports { tcp . 8080 }",
      "delete element ip cni_hostports address_ports { 192.0.2.1 . tcp . 8443 }",
      "delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }",
      "delete element ip cni_hostports localhost { 10.1.0.2 }",
    ])
  })

  test("puts back what it has replaced", () => {
    const gone = made({ ...owner, containerId: "c9" }, ["10.1.0.9/16"], [web], "/not/there").slice(0, 1)
    const kernel = new RuleSetKernel(complete(...gone), "EEXIST")
    const changes = addHostports(kernel.socket, spec)
    expect(kernel.sent[0]?.[0]).toBe("delete element ip cni_hostports ports { tcp . 8080 }")
    undoAddHostports(contextOf(kernel), spec, changes)
    expect(kernel.sent[1]?.[0]).toBe("delete element ip cni_hostports ports { tcp . 8080 }")
    expect(kernel.sent[1]?.at(-1)).toBe(
      'add element ip cni_hostports ports { tcp . 8080 comment "lab/c9/eth0" : 10.1.0.9 . 80 }',
    )
  })
})

test("the next mapping comes into force when the first was removed in between, and otherwise nothing is sent", () => {
  const ours = made(owner, ["10.1.0.2/16"], [web]).slice(0, 1)
  const kernel = new RuleSetKernel(complete({ set: tableLayout(AF_INET).ports, elements: [] }, ...standingBy(ours, 1)))
  promoteNext(kernel.socket, specOf(owner, ["10.1.0.2/16"], [web]))
  expect(kernel.sent).toEqual([
    [
      "delete element ip cni_hostports ports_standby { tcp . 8080 . 1 }",
      'create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }',
    ],
  ])
  const quiet = new RuleSetKernel(complete(...ours))
  promoteNext(quiet.socket, specOf(owner, ["10.1.0.2/16"], [web]))
  expect(quiet.sent).toEqual([])
})

test("ranks are closed for every port of the container, in both maps", () => {
  const mappings = [web, { ...web, hostPort: 8081 }, oneAddress, { ...oneAddress, hostPort: 8444 }]
  const ours = made(owner, ["10.1.0.2/16"], mappings).slice(0, 2)
  const empty = ours.map(({ set }) => ({ set, elements: [] }))
  const kernel = new RuleSetKernel(complete(...empty, ...standingBy(ours, 1)))
  promoteNext(kernel.socket, specOf(owner, ["10.1.0.2/16"], mappings))
  expect(kernel.sent).toEqual([
    [
      "delete element ip cni_hostports ports_standby { tcp . 8080 . 1, tcp . 8081 . 1 }",
      "delete element ip cni_hostports address_ports_standby { 192.0.2.1 . tcp . 8443 . 1, 192.0.2.1 . tcp . 8444 . 1 }",
      'create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80, ' +
        'tcp . 8081 comment "lab/c1/eth0" : 10.1.0.2 . 80 }',
      'create element ip cni_hostports address_ports { 192.0.2.1 . tcp . 8443 comment "lab/c1/eth0" : 10.1.0.2 . 443, ' +
        '192.0.2.1 . tcp . 8444 comment "lab/c1/eth0" : 10.1.0.2 . 443 }',
    ],
  ])
})

test("both families are mapped in one transaction", () => {
  const both = specOf(owner, ["10.1.0.2/16", "fd00::2/64"], [web])
  const layouts = ([AF_INET, AF_INET6] as const).map((family) => ({ set: tableLayout(family).ports, elements: [] }))
  const kernel = new RuleSetKernel({ ...ruleSet(...layouts), rules: rulesOf(16, 64) })
  addHostports(kernel.socket, both)
  expect(kernel.sent).toHaveLength(1)
  expect(kernel.sent.flat().filter((line) => line.includes("element ip6 "))).toHaveLength(2)
})
