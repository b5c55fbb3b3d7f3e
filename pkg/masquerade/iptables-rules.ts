import { chainName, containerComment, type Rule, type Search } from "../iptables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  type Cidr,
  type Family,
  formatCidr,
  hostCidr,
  networkOf,
  type Owner,
  ownerComment,
} from "../types/mod.ts"

/** The table and chain where containers' packets are sent on to their own chains. */
export const TABLE = "nat"
export const PARENT = "POSTROUTING"

/** Names that only chains of masquerades have: other chains of CNI have letters where these have digits. */
export const ANY_CHAIN = /^CNI-[0-9a-f]{24}$/

const MULTICAST = { [AF_INET]: "224.0.0.0/4", [AF_INET6]: "ff00::/8" } as const

/** The rules by which one container is masqueraded in one network, as upstream has them, in one address family. */
export interface MasqueradeRules {
  family: Family
  /** Its own chain: one for all interfaces of the container. */
  chain: string
  comment: string
  /** In the chain: the networks that each address reaches directly. */
  accepts: Rule[]
  /** In the chain: everything else, multicast excepted. */
  masquerade: Rule
  /** In the chain, at its end: whose an address is. They do nothing. */
  marks: Rule[]
  /** In POSTROUTING: what the addresses send goes to the chain. */
  jumps: Rule[]
}

/** The search that finds them. */
export function masqueradeSearch(owner: Owner): Search {
  return { chains: [chainName("CNI-", owner)], parents: [PARENT] }
}

/**
 * The rules for addresses of an attachment. Beside upstream's, which know the container and not its interface, there is a
 * mark for each address: a rule without a target that has the interface in its comment, so that DEL of one of a
 * container's interfaces leaves the others alone. Upstream's DEL flushes it away with the chain.
 */
export function masqueradeRules(family: Family, owner: Owner, addresses: readonly Cidr[]): MasqueradeRules {
  const chain = chainName("CNI-", owner)
  const comment = containerComment(owner)
  const rule = (match: string[], text: string, target?: string): Rule => ({
    chain,
    words: [...match, "-m", "comment", "--comment", text, ...(target === undefined ? [] : ["-j", target])],
  })
  return {
    family,
    chain,
    comment,
    accepts: addresses.map((address) => rule(["-d", subnetOf(address)], comment, "ACCEPT")),
    masquerade: rule(["!", "-d", MULTICAST[family]], comment, "MASQUERADE"),
    marks: addresses.map((address) => rule(["-s", hostCidr(address.ip), "-d", subnetOf(address)], ownerComment(owner))),
    jumps: addresses.map((address) => ({ ...rule(["-s", hostCidr(address.ip)], comment, chain), chain: PARENT })),
  }
}

/** "10.1.0.0/16" */
function subnetOf(address: Cidr): string {
  return formatCidr({ ip: networkOf(address), prefix: address.prefix })
}
