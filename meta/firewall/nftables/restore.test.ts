import { expect, test } from "bun:test"
import { printTransaction } from "../../../pkg/nftables/mod.ts"
import { type RuleSet, RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { isCniError } from "../../../pkg/types/mod.ts"
import type { FirewallSpec } from "../spec.ts"
import { inForce, made, ruleSet, rulesOf, specOf } from "../testing/firewall.ts"
import { planRestore } from "./restore.ts"

const zoned = (spec: FirewallSpec) => ({ ...spec, zone: undefined })
const specs = [specOf(2), specOf(3)]
const isolated = [specOf(2, "isolated"), specOf(3, "isolated")]

function planOn(found: RuleSet, of: readonly FirewallSpec[] = specs) {
  const { operations, became } = planRestore(new RuleSetKernel(found).socket, of.map(zoned), true)
  return {
    text: printTransaction(operations),
    became: became.map((one) => (isCniError(one) ? one.message : one)),
  }
}

test("where all is there nothing is planned", () => {
  expect(planOn(ruleSet(...specs.flatMap((spec) => made(spec))))).toEqual({ text: "", became: ["whole", "whole"] })
})

test("without a table it is made, with the addresses of all, and the administrator's chain is kept", () => {
  const { text, became } = planOn({ sets: [] })
  expect(became).toEqual(["missing", "missing"])
  expect(text).toContain("add table inet cni_firewall")
  expect(text).toContain('10.1.0.2 comment "net1/c2/eth0", 10.1.0.3 comment "net1/c3/eth0"')
  expect(text).toContain("CNI-ADMIN")
})

test("an address that is gone is missing for its attachment alone", () => {
  const { text, became } = planOn(ruleSet(...specs.slice(1).flatMap((spec) => made(spec))))
  expect(became).toEqual(["missing", "whole"])
  expect(text).not.toContain("net1/c3/eth0")
})

test("an address that another container of the network has by now stays that one's", () => {
  const theirs = made({ ...specOf(2), owner: { network: "net1", containerId: "c9", ifName: "eth0" } })
  const { text, became } = planOn(ruleSet(...theirs, ...made(specOf(3))))
  expect(became).toEqual([
    'Cannot restore the firewall rules of net1/c2/eth0: its address now belongs to "net1/c9/eth0"',
    "whole",
  ])
  expect(text).toBe("")
})

test("a policy that is gone, or in force no more, is missing for those that have asked for it", () => {
  const groups = isolated.flatMap((spec) => made(spec))
  expect(planOn(ruleSet(...groups, ...inForce("isolated")), isolated)).toEqual({ text: "", became: ["whole", "whole"] })
  const { text, became } = planOn({ ...ruleSet(...groups), rules: rulesOf(true, "CNI-ADMIN") }, isolated)
  expect(became).toEqual(["missing", "missing"])
  expect(text).toContain("drop")
})
