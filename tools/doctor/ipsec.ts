import type { IpsecDirection } from "../../pkg/netlink/mod.ts"
import { type Cidr, contains, familyOf, parseCidr } from "../../pkg/types/mod.ts"
import { describePolicy, type FoundPolicy, policiesOf, whyBlocked } from "../node/mod.ts"
import { affectedBy, type Check, type DoctorInput, type Finding } from "./finding.ts"
import { ofOthers, sh } from "./remedy.ts"

/** Finds IPsec policies that drop all packets that containers send or receive. */
export const checkIpsec: Check = (input) => {
  const { attachments, hostTables } = input
  const { ipsec } = hostTables
  if (ipsec.policies.length === 0 && ipsec.blockedByDefault.length === 0) return []
  const found = attachments.flatMap((one) =>
    one.addresses.flatMap((text) => {
      const ip = parseCidr(text)?.ip
      return ip === undefined ? [] : blockersOf(ip, input).map((blocker) => ({ one, blocker }))
    }),
  )
  const byPolicy = Map.groupBy(found, ({ blocker }) => describePolicy(blocker))
  return [...byPolicy].map(([text, group]): Finding => {
    const blockers = group.map(({ blocker }) => blocker)
    const why = new Set(blockers.flatMap(({ policy }) => whyBlocked(policy, ipsec) ?? []))
    const what = `${text} matches packets of containers, and ${[...why].join(", ")}`
    return {
      rule: "ipsec-policy",
      severity: "error",
      cause: text,
      affected: [...new Map(group.map(({ one }) => [one, affectedBy(one)])).values()],
      what,
      ofMany: () => what,
      why: "the kernel drops the packets after all rules of the packet filter: containers cannot reach the host, or other networks",
      remedy: ofOthers("exclude packets of containers from the policy", sh`ip xfrm policy`),
    }
  })
}

/** Returns the policies that drop all packets from or to an address, except policies that an earlier one overrides. */
function blockersOf(ip: Uint8Array, input: DoctorInput): FoundPolicy[] {
  const { ipsec } = input.hostTables
  const policies = policiesOf(ipsec, familyOf(ip)).filter(({ policy }) => !policy.isNarrow)
  return policies.filter(({ policy }, at) => {
    if (whyBlocked(policy, ipsec) === undefined) return false
    const before = policies.slice(0, at).filter((other) => other.policy.direction === policy.direction)
    const drops = (own: "src" | "dst", far: "src" | "dst") => {
      if (!contains(policy[own], ip) || !isBroad(policy[far], policy.direction, input)) return false
      return !before.some(({ policy: other }) => contains(other[own], ip) && isWithin(policy[far], other[far]))
    }
    // A policy that requires IPsec for packets to a container is not a fault, because packets of a tunnel fulfill it.
    return drops("src", "dst") || ((policy.isBlocking || policy.direction === "out") && drops("dst", "src"))
  })
}

function isWithin({ ip, prefix }: Cidr, other: Cidr): boolean {
  return other.prefix <= prefix && contains(other, ip)
}

/**
 * Reports whether a policy concerns so many addresses that containers lose their connectivity: all addresses or, for
 * the host's own packets, one of the host's addresses.
 */
function isBroad(cidr: Cidr, direction: IpsecDirection, { node }: DoctorInput): boolean {
  if (cidr.prefix === 0) return true
  if (direction === "fwd") return false
  const own = node.links.flatMap(({ nsid, addresses }) => (nsid === undefined ? addresses : []))
  return own.some((text) => {
    const ip = parseCidr(text)?.ip
    return ip !== undefined && familyOf(ip) === familyOf(cidr.ip) && contains(cidr, ip)
  })
}
