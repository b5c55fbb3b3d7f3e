import { expect, test } from "bun:test"
import type { FilterView } from "../node/mod.ts"
import { checkOwnTables } from "./own-tables.ts"
import { accept, attachmentOf, cachedOf, inputOf, printed, ruleOf } from "./testing/inputs.ts"

test("a table of this suite that is dormant is told, and no other", () => {
  const dormant = [
    { family: "inet", name: "cni_firewall" },
    { family: "ip", name: "mine" },
  ] as const
  expect(printed(checkOwnTables(inputOf({ filter: { bases: [], rules: [], dormant } })))).toEqual([
    `error table-dormant
table inet cni_firewall is dormant: no packet passes its chains
its rules for masquerade, published ports, policies and MACs have no effect
nft add table inet cni_firewall`,
  ])
  expect(checkOwnTables(inputOf({ filter: { bases: [], rules: [] } }))).toEqual([])
  expect(checkOwnTables(inputOf({}))).toEqual([])
})

test("a table of this suite that has lost the rules of a base chain is told once, with all that need them", () => {
  const cached = { ...cachedOf([{ type: "portmap" }]), isAlive: true }
  const of = (containerId: string, place = "ip cni_hostports ports") =>
    attachmentOf({ containerId, ...cached, rules: [{ place, backend: "nftables", owner: "" }] })
  const chain = (name: string) => ruleOf(`ip cni_hostports ${name}`, 1, accept)
  const tables = [{ family: "ip", name: "cni_hostports" }] as const
  const found = (names: string[], attachments = [of("c1"), of("c2")], more: Partial<FilterView> = {}) =>
    printed(checkOwnTables(inputOf({ attachments, filter: { bases: [], rules: names.map(chain), tables, ...more } })))
  expect(found(["postrouting", "output"])).toEqual([
    `error table-incomplete
chain prerouting of table ip cni_hostports has no rules, but 2 containers need them: "pods/c1/eth0", "pods/c2/eth0"
packets do not reach the table's rules for containers: masquerade and published ports do not work
cni reattach pods/c1/eth0`,
  ])
  expect(found(["postrouting", "output", "prerouting"])).toEqual([])
  expect(found([], [of("c1", "ip cni_masquerade containers")])).toEqual([])
  expect(found([], [of("c1")], { dormant: tables })[0]).toContain("table-dormant")
  expect(found([], [{ ...of("c1"), isAlive: false }])[0]).toEndWith(
    "the next ADD of a plugin that uses the table re-creates the rules",
  )
  expect(found(["prerouting"], [of("c1")])[0]).toContain("chains output, postrouting of table ip cni_hostports")
})
