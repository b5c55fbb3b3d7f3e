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

/** The table and chain with the jumps to the containers' own chains. */
export const TABLE = "nat"
export const PARENT = "POSTROUTING"

/** Names that only chains of masquerades have: other chains of CNI have letters in place of these digits. */
export const ANY_CHAIN = /^CNI-[0-9a-f]{24}$/

const MULTICAST = { [AF_INET]: "224.0.0.0/4", [AF_INET6]: "ff00::/8" } as const

/** The rules that masquerade one container in one network, as upstream has them, in one address family. */
export interface MasqueradeRules {
  family: Family
  /** The own chain, shared by all interfaces of the container. */
  chain: string
  comment: string
  /** In the chain: the networks that each address reaches directly. */
  accepts: Rule[]
  /** In the chain: everything else, multicast excepted. */
  masquerade: Rule
  /** At the end of the chain: the owners of addresses. These rules have no effect. */
  marks: Rule[]
  /** In POSTROUTING: the jumps to the chain for packets from the addresses. */
  jumps: Rule[]
}

/** Returns the search that finds them. */
export function masqueradeSearch(owner: Owner): Search {
  return { chains: [chainName("CNI-", owner)], parents: [PARENT] }
}

/**
 * Returns the rules for the addresses of an attachment. Upstream's rules name the container but not its interface, so
 * each address also has a mark: a rule without a target that has the interface in its comment, so that DEL of one
 * interface leaves the others alone. Upstream's DEL removes it with the chain.
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
