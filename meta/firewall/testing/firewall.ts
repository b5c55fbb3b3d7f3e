import { type Element, ifnameValue, type NamedSet, type SharedSet } from "../../../pkg/nftables/mod.ts"
import type { KernelRule, RuleSet } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { AF_INET, AF_INET6, ownerComment } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import * as layout from "../nftables/layout.ts"
import { type FirewallSpec, printNote } from "../spec.ts"

export { layout }

/** Returns the rules of container "c2" with port "veth2" of "br1", 10.1.0.2 and fd00:1::2, or another number. */
export function specOf(number: number, policy: Policy = "open", more: Partial<FirewallSpec> = {}): FirewallSpec {
  return {
    owner: { network: "net1", containerId: `c${number}`, ifName: "eth0" },
    addresses: [Uint8Array.of(10, 1, 0, number), Uint8Array.fromHex(`fd0000010000000000000000000000${hexOf(number)}`)],
    policy,
    link: { bridge: "br1", port: `veth${number}` },
    adminChain: "CNI-ADMIN",
    ...more,
  }
}

const hexOf = (number: number) => number.toString(16).padStart(2, "0")

export interface Group {
  readonly set: NamedSet
  readonly elements: readonly Element[]
}

/** Returns the elements that ADD adds for an attachment, except for the policy in force on its bridge. */
export function made({ owner, addresses, policy, link }: FirewallSpec, zone?: string): Group[] {
  const comment = ownerComment(owner)
  const note = printNote({ count: addresses.length, link: policy === "open" ? undefined : link, zone })
  const [bridge, port] = [ifnameValue(link?.bridge ?? ""), ifnameValue(link?.port ?? "")]
  return [
    ...addresses.map((ip) => ({
      set: layout.containers[ip.length === 4 ? AF_INET : AF_INET6],
      elements: [{ key: [ip], comment, note }],
    })),
    ...(policy === "open" ? [] : [{ set: layout.asked[policy], elements: [{ key: [bridge, port], comment }] }]),
    ...(policy === "isolated" ? [{ set: layout.isolatedPorts, elements: [{ key: [port], comment }] }] : []),
  ]
}

export function inForce(policy: "same-bridge" | "isolated", name = "br1"): Group[] {
  const bridge = ifnameValue(name)
  const verdict = policy === "isolated" ? "drop" : { goto: "admit" }
  return [
    { set: layout.within, elements: [{ key: [bridge, bridge], verdict, comment: policy }] },
    { set: layout.policed, elements: [{ key: [bridge], comment: policy }] },
  ]
}

export function standingBy(groups: readonly Group[], place: number): Group[] {
  return groups.slice(0, 2).map(({ set, elements }) => ({
    set: (set as SharedSet).standby,
    elements: elements.map((element) => ({ ...element, key: [...element.key, Uint8Array.of(0, place)] })),
  }))
}

/** Returns all rules of the table, with jumps to these chains and, with `hasPolicies`, the rules for policies. */
export function rulesOf(hasPolicies: boolean, ...adminChains: readonly string[]): KernelRule[] {
  const policyRules = hasPolicies ? layout.policyRules : []
  return [...policyRules, ...layout.rules, ...adminChains.map(layout.adminRule)].map(
    ({ chain, comment = "" }, at): KernelRule => ({
      family: 1,
      table: chain.table.name,
      chain: chain.name,
      handle: BigInt(at + 1),
      comment,
      expressions: [],
    }),
  )
}

/** Returns a complete table with these elements, and the table of family bridge if there is an isolated port. */
export function ruleSet(...groups: readonly Group[]): RuleSet & { rules: KernelRule[] } {
  const { containers, within, policed, asked } = layout
  const always = [containers[AF_INET], containers[AF_INET6], within, policed, asked["same-bridge"], asked.isolated]
  const isSame = (a: NamedSet, b: NamedSet) => a.name === b.name && a.table.family === b.table.family
  const sets: NamedSet[] = [...always]
  for (const { set } of groups) if (!sets.some((one) => isSame(one, set))) sets.push(set)
  return {
    sets: sets.map((set) => ({
      set,
      elements: groups.filter((group) => isSame(group.set, set)).flatMap(({ elements }) => elements),
    })),
    rules: rulesOf(
      groups.some(({ set }) => set === policed),
      "CNI-ADMIN",
    ),
  }
}
