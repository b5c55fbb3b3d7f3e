import { expect, test } from "bun:test"
import { type Element, printTransaction, type SharedSet } from "../nftables/mod.ts"
import { type KernelRule, type RuleSet, RuleSetKernel } from "../nftables/testing/rule-set-kernel.ts"
import { AF_INET, type Cidr, isCniError, ownerComment, parseCidr } from "../types/mod.ts"
import { masqueradeLayout, networksOf, placesFor } from "./nftables-layout.ts"
import { planRestore } from "./nftables-restore.ts"
import type { MasqueradeSpec } from "./spec.ts"

const layout = masqueradeLayout(AF_INET)

function specOf(containerId: string, text: string, network = "net"): MasqueradeSpec {
  return { owner: { network, containerId, ifName: "eth0" }, addresses: [parseCidr(text) as Cidr] }
}

const specs = [specOf("c1", "10.1.0.2/16"), specOf("c2", "10.1.0.3/16")]

/** Returns the elements of these attachments by set. `comment`, if given, replaces their comments. */
function elementsOf(of: readonly MasqueradeSpec[], comment?: (spec: MasqueradeSpec) => string | undefined) {
  const sets = new Map<SharedSet, Element[]>([
    [layout.containers, []],
    [networksOf(layout, 16).set, []],
  ])
  for (const spec of of)
    for (const { set, element } of placesFor(layout, spec.addresses, ownerComment(spec.owner))) {
      const { comment: own, ...bare } = element
      const written = comment ? comment(spec) : own
      sets.get(set)?.push(written === undefined ? bare : { ...bare, comment: written })
    }
  return [...sets].map(([set, elements]) => ({ set, elements }))
}

const rules = [networksOf(layout, 16).rule, layout.rule].map(({ chain, comment }, at): KernelRule => {
  const names = { table: layout.table.name, chain: chain.name, comment: comment ?? "" }
  return { family: 2, ...names, handle: BigInt(at + 1), expressions: [] }
})

function planOn(found: RuleSet, of = specs) {
  const { operations, became } = planRestore(new RuleSetKernel(found).socket, of)
  return {
    text: printTransaction(operations),
    became: became.map((one) => (isCniError(one) ? one.message : one)),
  }
}

test("where all is there nothing is planned", () => {
  expect(planOn({ sets: elementsOf(specs), rules })).toEqual({ text: "", became: ["whole", "whole"] })
})

test("without a table it is made, with the addresses of all", () => {
  const { text, became } = planOn({ sets: [] })
  expect(became).toEqual(["missing", "missing"])
  expect(text).toContain("add table ip cni_masquerade")
  expect(text).toContain('containers { 10.1.0.2 comment "net/c1/eth0", 10.1.0.3 comment "net/c2/eth0" }')
  expect(text).toContain('10.1.0.2 . 10.1.0.0 comment "net/c1/eth0"')
})

test("an address that is gone is missing for its attachment alone", () => {
  const { text, became } = planOn({ sets: elementsOf(specs.slice(1)), rules })
  expect(became).toEqual(["missing", "whole"])
  expect(text).not.toContain("net/c2/eth0")
})

test("a rule that is gone is missing for all", () => {
  const { text, became } = planOn({ sets: elementsOf(specs), rules: rules.slice(1) })
  expect(became).toEqual(["missing", "missing"])
  expect(text).toContain("to its own network, /16")
})

test("an address that another container of the network has by now stays that one's", () => {
  const { text, became } = planOn({ sets: elementsOf(specs.slice(0, 1), () => "net/c9/eth0"), rules })
  expect(became).toEqual([
    'Cannot restore the masquerade of net/c1/eth0: its address now belongs to "net/c9/eth0"',
    "missing",
  ])
  expect(text).not.toContain("c1")
})

test("of another network it may be the same: the attachment stands by", () => {
  const { text, became } = planOn({ sets: elementsOf(specs.slice(0, 1), () => "other/c9/eth0"), rules }, [
    specs[0] as MasqueradeSpec,
  ])
  expect(became).toEqual(["missing"])
  expect(text).toContain('containers_standby { 10.1.0.2 . 1 comment "net/c1/eth0" }')
})

test("an element without an owner gives way", () => {
  const { text, became } = planOn({ sets: elementsOf(specs.slice(0, 1), () => undefined), rules }, [
    specs[0] as MasqueradeSpec,
  ])
  expect(became).toEqual(["missing"])
  expect(text).toContain("delete element ip cni_masquerade containers { 10.1.0.2 }")
  expect(text).toContain('create element ip cni_masquerade containers { 10.1.0.2 comment "net/c1/eth0" }')
})
