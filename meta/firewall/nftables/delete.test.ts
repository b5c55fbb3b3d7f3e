import { describe, expect, test } from "bun:test"
import { printTransaction } from "../../../pkg/nftables/mod.ts"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { ownerComment } from "../../../pkg/types/mod.ts"
import { type Group, inForce, layout, made, ruleSet, specOf } from "../testing/firewall.ts"
import { planRemoval } from "./delete.ts"

const { owner, addresses: known } = specOf(2)
const others = [...made(specOf(3)), ...made(specOf(4))]

/** Returns the requests of DEL of c2 with these addresses, and whether DEL has listed a set. */
function removal(groups: readonly Group[], addresses: readonly Uint8Array[]) {
  const kernel = new RuleSetKernel(ruleSet(...groups))
  const comment = ownerComment(owner)
  const { operations, elements } = planRemoval(kernel.socket, {
    isStale: (found) => found === comment,
    needles: [new TextEncoder().encode(comment)],
    owner,
    addresses,
  })
  const lines = printTransaction(operations).trim().split("\n")
  return { lines, elements, isList: kernel.asked.some((question) => /^list .* containers/.test(question)) }
}

const own = [
  "delete element inet cni_firewall containers { 10.1.0.2 }",
  "delete element inet cni_firewall containers6 { fd00:1::2 }",
]

describe("what is told whole", () => {
  test("is looked up, and no list is read", () => {
    expect(removal([...made(specOf(2)), ...others], known)).toMatchObject({ lines: own, isList: false })
    expect(removal([...made(specOf(2)), ...others], known).elements).toHaveLength(2)
  })

  test("goes with what was asked for, of either policy, if it is still there", () => {
    for (const policy of ["same-bridge", "isolated"] as const) {
      const groups = [...made(specOf(2, policy)), ...inForce(policy), ...others, ...made(specOf(5, policy))]
      const { lines, isList } = removal(groups, known)
      expect(lines.slice(0, 2)).toEqual(own)
      expect(lines[2]).toBe(`delete element inet cni_firewall ${policy.replace("-", "_")} { "br1" . "veth2" }`)
      expect(isList).toBe(false)
      const left = groups.filter(({ set }) => set.name !== layout.asked[policy].name)
      expect(removal(left, known).lines).toEqual(own)
    }
  })
})

test.each<[string, readonly Uint8Array[]]>([
  ["nothing", []],
  ["a part", known.slice(0, 1)],
  ["another's beside its own", [...known.slice(0, 1), ...specOf(3).addresses.slice(1)]],
  ["another's for its own", specOf(3).addresses],
  ["more than there are", [...known, ...specOf(9).addresses]],
])("an attachment of which DEL is told %s is found in the lists", (_, addresses) => {
  expect(removal([...made(specOf(2)), ...others], addresses)).toMatchObject({ lines: own, isList: true })
})

test("where no others are left the lists are read, and the table goes", () => {
  expect(removal(made(specOf(2)), known)).toMatchObject({ lines: ["delete table inet cni_firewall"], isList: true })
})
