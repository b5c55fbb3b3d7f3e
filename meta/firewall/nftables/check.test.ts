import { describe, expect, test } from "bun:test"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { refusalOf } from "../../../pkg/types/testing.ts"
import { type Group, inForce, made, ruleSet, rulesOf, specOf, standingBy } from "../testing/firewall.ts"
import { checkFirewall } from "./firewall.ts"

/** Returns the error of CHECK of container c2 for a table with the objects in `groups`; "fine" if CHECK succeeds. */
function check(policy: Parameters<typeof specOf>[1], groups: readonly Group[], ...refusals: string[]): string {
  const { socket } = new RuleSetKernel(ruleSet(...groups), ...refusals)
  try {
    checkFirewall(socket, specOf(2, policy))
    return "fine"
  } catch {
    const { socket } = new RuleSetKernel(ruleSet(...groups), ...refusals)
    const { code, message } = refusalOf(() => checkFirewall(socket, specOf(2, policy)))
    expect(code).toBe(999)
    return message.replace("Cannot find the firewall rules of net1/c2/eth0: expected ", "")
  }
}

const policies = ["same-bridge", "isolated"] as const
const other = (more: object) => ({ ...specOf(2), owner: { ...specOf(2).owner, ...more } })

test.each(["open", ...policies] as const)("what ADD has made with policy %s is fine", (policy) => {
  expect(check(policy, [...made(specOf(2, policy)), ...(policy === "open" ? [] : inForce(policy))])).toBe("fine")
})

describe("an address", () => {
  const missing = (found: string) =>
    `10.1.0.2 comment "net1/c2/eth0" in set inet cni_firewall containers; found ${found}`

  test("that does not exist, or is another's, is missing", () => {
    expect(check("open", [])).toBe(missing("none"))
    expect(check("open", made(other({ network: "net9" })))).toBe(missing('10.1.0.2 comment "net9/c2/eth0"'))
    expect(check("open", made(specOf(2)).slice(0, 1))).toBe(
      'fd00:1::2 comment "net1/c2/eth0" in set inet cni_firewall containers6; found none',
    )
  })

  test("may stand by for another's, but not for none", () => {
    const ours = standingBy(made(specOf(2)), 1)
    expect(check("open", [...made(other({ network: "net9" })), ...ours])).toBe("fine")
    expect(check("open", ours)).toBe(missing("none"))
  })
})

describe.each(policies)("policy %s", (policy) => {
  const whole = made(specOf(2, policy))

  test("that is not asked for, or for another bridge, is missing, also where one of a longer name asks for it", () => {
    const missing = (found: string) => `policy ${policy} for bridge "br1"; found ${found}`
    expect(check(policy, [...made(specOf(2)), ...inForce(policy)])).toBe(missing("none"))
    const elsewhere = made(specOf(2, policy, { link: { bridge: "br2", port: "veth2" } }))
    expect(check(policy, [...elsewhere, ...inForce(policy)])).toBe(missing(policy))
    const longer = made({ ...other({ network: "xnet1" }), policy }).slice(2)
    expect(check(policy, [...made(specOf(2)), ...longer, ...inForce(policy)])).toBe(missing("none"))
  })

  test("is found beside what another of a longer name asks for", () => {
    const longer = made({
      ...other({ network: "xnet1" }),
      policy: "isolated",
      link: { bridge: "br0", port: "veth9" },
    }).slice(2)
    expect(check(policy, [...longer, ...whole, ...inForce(policy)])).toBe("fine")
  })

  test("is to be in force, and the bridge apart from others", () => {
    const missing = (found: string) => `policy ${policy} in force on bridge "br1"; found ${found}`
    const [within = { set: undefined as never, elements: [] }, policed = within] = inForce(policy)
    expect(check(policy, whole)).toBe(missing("open"))
    expect(check(policy, [...whole, within])).toBe(missing("open"))
    expect(check(policy, [...whole, policed])).toBe(missing("open"))
    expect(check(policy, [...whole, ...inForce(policy, "br2")])).toBe(missing("open"))
    const another = policies.find((each) => each !== policy) ?? policy
    expect(check(policy, [...whole, ...inForce(another)])).toBe(missing(another))
  })
})

test("the stricter policy of another on the bridge is to be in force", () => {
  const both = [...made(specOf(2, "same-bridge")), ...made(specOf(3, "isolated"))]
  expect(check("same-bridge", [...both, ...inForce("isolated")])).toBe("fine")
  expect(check("same-bridge", [...both, ...inForce("same-bridge")])).toBe(
    'policy isolated in force on bridge "br1"; found same-bridge',
  )
})

test("an isolated port is to be apart from the others where the kernel filters on bridges", () => {
  const apart = [...made(specOf(2, "isolated")), ...inForce("isolated")]
  const together = apart.filter(({ set }) => set.table.family !== "bridge")
  const missing = '"veth2" in set bridge cni_firewall isolated; found none'
  expect(check("isolated", [...together, ...made(specOf(3, "isolated")).slice(3)])).toBe(missing)
  expect(check("isolated", together, "EEXIST")).toBe(missing)
  expect(check("isolated", together, "EOPNOTSUPP")).toBe("fine")
})

test("a policy in force without its rules is not, as far as packets are concerned", () => {
  for (const policy of policies) {
    const whole = ruleSet(...made(specOf(2, policy)), ...inForce(policy))
    const { socket } = new RuleSetKernel({ ...whole, rules: rulesOf(false, "CNI-ADMIN") })
    expect(refusalOf(() => checkFirewall(socket, specOf(2, policy))).message).toBe(
      "Cannot find the firewall rules of net1/c2/eth0: expected the rules of table inet cni_firewall; found none",
    )
  }
})

test("without the table's rules nothing else is looked at", () => {
  const { socket } = new RuleSetKernel({ ...ruleSet(...made(specOf(2))), rules: [] })
  expect(refusalOf(() => checkFirewall(socket, specOf(2))).message).toBe(
    "Cannot find the firewall rules of net1/c2/eth0: expected the rules of table inet cni_firewall; found none",
  )
})
