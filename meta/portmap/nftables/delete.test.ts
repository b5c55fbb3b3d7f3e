import { describe, expect, test } from "bun:test"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { ofOwner, ofStale } from "../../../pkg/rules/mod.ts"
import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"
import type { Mapping } from "../mapping.ts"
import { contextOf, made, oneAddress, others, owner, printed, ruleSet, standingBy, web } from "../testing/hostports.ts"
import { deleteEmptyTables, deleteHostports } from "./delete.ts"
import { tableLayout } from "./table.ts"

describe("deleting an attachment's mappings", () => {
  const ours = () => made(owner, ["10.1.0.2/16"], [web, oneAddress])

  test("takes its elements of every set in one transaction, and no others; what was mapped is answered", () => {
    const kernel = new RuleSetKernel(ruleSet(...ours(), ...others(1)))
    const { deleted } = deleteHostports(contextOf(kernel), ofOwner(owner), [web, oneAddress])
    expect(kernel.sent).toEqual([
      [
        "add chain ip cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
        "delete element ip cni_hostports ports { tcp . 8080 }",
        "delete element ip cni_hostports address_ports { 192.0.2.1 . tcp . 8443 }",
        "delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }",
        "delete element ip cni_hostports localhost { 10.1.0.2 }",
      ],
    ])
    expect(printed(deleted)).toEqual(["8080/tcp to 10.1.0.2:80", "192.0.2.1:8443/tcp to 10.1.0.2:443"])
  })

  test.each([1, 9, 10, 11, 500])("asks for its own keys: no list is read among %d others", (count) => {
    const kernel = new RuleSetKernel(ruleSet(...ours(), ...others(count)))
    deleteHostports(contextOf(kernel), ofOwner(owner), [web, oneAddress])
    expect(kernel.sent).toHaveLength(1)
    expect(kernel.asked.filter((question) => question.startsWith("list"))).toEqual([])
  })

  test.each([1, 9, 10, 11, 40])("the last one takes the table along, also with %d ports", (count) => {
    const mappings = Array.from({ length: count }, (_, n) => ({ ...web, hostPort: 7000 + n }))
    const kernel = new RuleSetKernel(ruleSet(...made(owner, ["10.1.0.2/16", "fd00::2/64"], mappings)))
    expect(deleteHostports(contextOf(kernel), ofOwner(owner), mappings).deleted).toHaveLength(2 * count)
    expect(kernel.sent).toEqual([["delete table ip cni_hostports", "delete table ip6 cni_hostports"]])
  })

  test("finds by its name what the mappings do not say, wrong ones, too few, too many or none", () => {
    const wrong = { ...web, hostPort: 1 }
    const elsewhere: Mapping = { ...web, family: AF_INET6 }
    for (const mappings of [[], [wrong], [web], [web, oneAddress, wrong], [elsewhere]]) {
      const kernel = new RuleSetKernel(ruleSet(...ours(), ...others(20)))
      expect(printed(deleteHostports(contextOf(kernel), ofOwner(owner), mappings).deleted)).toHaveLength(2)
      expect(kernel.sent.flat().join("\n")).toContain("address_ports { 192.0.2.1 . tcp . 8443 }")
      expect(kernel.sent.flat().filter((line) => line.startsWith("delete "))).toHaveLength(4)
    }
  })

  test("leaves what has another owner, though it is at the same port or has a name that begins alike", () => {
    const theirs = [
      ...made({ ...owner, containerId: "c11" }, ["10.1.0.2/16"], [web]),
      ...made({ ...owner, ifName: "eth01" }, ["10.1.0.3/16"], [{ ...web, hostPort: 81 }]),
      ...made({ ...owner, network: "lab2" }, ["10.1.0.4/16"], [{ ...web, hostPort: 82 }]),
    ]
    const kernel = new RuleSetKernel(ruleSet(...theirs))
    expect(deleteHostports(contextOf(kernel), ofOwner(owner), [web]).deleted).toEqual([])
    expect(kernel.sent).toEqual([])
  })

  test("of nothing sends nothing; without a table either", () => {
    for (const rules of [ruleSet(...others(1)), { sets: [] }]) {
      const kernel = new RuleSetKernel(rules)
      expect(deleteHostports(contextOf(kernel), ofOwner(owner), [web]).deleted).toEqual([])
      expect(kernel.sent).toEqual([])
    }
  })

  test("begins again when others have changed the rule set, with what is there by then", () => {
    const former = ruleSet(...ours())
    const present = ruleSet(...ours(), ...others(1))
    let readings = 0
    const kernel: RuleSetKernel = new RuleSetKernel(
      () => (kernel.sent.length === 0 && readings < 1 ? former : present),
      "ERESTART",
    )
    const { transact } = kernel.socket
    const socket = Object.assign(kernel.socket, {
      transact: (requests: Parameters<typeof transact>[0]) => {
        readings++
        transact(requests)
      },
    })
    deleteHostports({ ...contextOf(kernel), socket }, ofOwner(owner), [web, oneAddress])
    expect(kernel.sent).toHaveLength(1)
    expect(kernel.sent.flat()).not.toContain("delete table ip cni_hostports")
    expect(kernel.sent.flat()).toContain("delete element ip cni_hostports ports { tcp . 8080 }")
  })

  test("another refusal is an error, and mappings that were removed in between are not", () => {
    const kernel = new RuleSetKernel(ruleSet(...ours()), "EPERM")
    expect(() => deleteHostports(contextOf(kernel), ofOwner(owner), [web, oneAddress])).toThrow("EPERM")
  })
})

describe("a port that other attachments of the container want, too,", () => {
  const second = made({ ...owner, network: "net2", ifName: "eth1" }, ["10.2.0.9/16"], [web]).slice(0, 1)
  const third = made({ ...owner, network: "net3", ifName: "eth2" }, ["10.3.0.9/16"], [web]).slice(0, 1)

  test("goes to the next in line, and the others move up", () => {
    const ours = made(owner, ["10.1.0.2/16"], [web])
    const rules = ruleSet(...ours, ...standingBy(second, 1), ...standingBy(third, 2))
    for (const mappings of [[web], []]) {
      const kernel = new RuleSetKernel(rules)
      expect(printed(deleteHostports(contextOf(kernel), ofOwner(owner), mappings).deleted)).toEqual([
        "8080/tcp to 10.1.0.2:80",
      ])
      const text = kernel.sent.flat().join("\n")
      expect(text).toContain("delete element ip cni_hostports ports { tcp . 8080 }")
      expect(text).toContain("delete element ip cni_hostports ports_standby { tcp . 8080 . 1, tcp . 8080 . 2 }")
      expect(text).toContain(
        'create element ip cni_hostports ports { tcp . 8080 comment "net2/c1/eth1" : 10.2.0.9 . 80 }',
      )
      expect(text).toContain('ports_standby { tcp . 8080 . 1 comment "net3/c1/eth2" : 10.3.0.9 . 80 }')
      expect(text).not.toContain("delete map")
      expect(text).not.toContain("delete table")
    }
  })

  test("stays where it is when one that stands by goes, and the set goes when nothing stands by any more", () => {
    const rules = ruleSet(...second, ...standingBy(made(owner, ["10.1.0.2/16"], [web]).slice(0, 1), 1))
    for (const mappings of [[web], []]) {
      const kernel = new RuleSetKernel(rules)
      deleteHostports(contextOf(kernel), ofOwner(owner), mappings)
      expect(kernel.sent).toEqual([
        [
          "add chain ip cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
          "delete element ip cni_hostports ports_standby { tcp . 8080 . 1 }",
          "delete map ip cni_hostports ports_standby",
        ],
      ])
    }
  })
})

describe("GC", () => {
  const valid = { ...owner, containerId: "alive" }

  test("deletes what is this network's and not of a valid attachment, in one transaction", () => {
    const kernel = new RuleSetKernel(
      ruleSet(
        ...made(owner, ["10.1.0.2/16"], [web]),
        ...made({ ...owner, containerId: "c2" }, ["fd00::3/64"], [{ ...web, hostPort: 82 }]),
        ...made(valid, ["10.1.0.4/16", "fd00::4/64"], [{ ...web, hostPort: 83 }]),
        ...made({ ...owner, network: "other" }, ["10.1.0.5/16"], [{ ...web, hostPort: 84 }]),
      ),
    )
    expect(printed(deleteHostports(contextOf(kernel), ofStale("lab", [valid])).deleted)).toEqual([
      "8080/tcp to 10.1.0.2:80",
      "82/tcp to fd00::3:80",
    ])
    expect(kernel.sent).toEqual([
      [
        "add chain ip cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
        "delete element ip cni_hostports ports { tcp . 8080 }",
        "delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }",
        "delete element ip cni_hostports localhost { 10.1.0.2 }",
        "add chain ip6 cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }",
        "delete element ip6 cni_hostports ports { tcp . 82 }",
        "delete element ip6 cni_hostports hairpin { fd00:: . fd00::3 }",
      ],
    ])
  })

  test("takes a table in which nothing is left, and leaves those of others", () => {
    const kernel = new RuleSetKernel(
      ruleSet(...made(owner, ["10.1.0.2/16"], [web]), ...made(valid, ["fd00::4/64"], [web])),
    )
    deleteHostports(contextOf(kernel), ofStale("lab", [valid]))
    expect(kernel.sent).toEqual([["delete table ip cni_hostports"]])
  })

  test("of nothing that is stale sends nothing", () => {
    const kernel = new RuleSetKernel(ruleSet(...made(valid, ["10.1.0.4/16"], [web])))
    expect(deleteHostports(contextOf(kernel), ofStale("lab", [valid])).deleted).toEqual([])
    expect(deleteHostports(contextOf(kernel), ofStale("la", [])).deleted).toEqual([])
    expect(kernel.sent).toEqual([])
  })
})

test("tables without a mapping go, and no other", () => {
  const { ports } = tableLayout(AF_INET)
  const kernel = new RuleSetKernel(ruleSet({ set: ports, elements: [] }, ...made(owner, ["fd00::2/64"], [web])))
  deleteEmptyTables(contextOf(kernel))
  expect(kernel.sent).toEqual([["delete table ip cni_hostports"]])
})
