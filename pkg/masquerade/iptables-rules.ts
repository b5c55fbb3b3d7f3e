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

/** The table and the chain with the jumps to the chains of containers. */
export const TABLE = "nat"
export const PARENT = "POSTROUTING"

/** The pattern of the names of masquerade chains. Other chains of CNI have capital letters after "CNI-". */
export const ANY_CHAIN = /^CNI-[0-9a-f]{24}$/

const MULTICAST = { [AF_INET]: "224.0.0.0/4", [AF_INET6]: "ff00::/8" } as const

/** The rules that masquerade a container in one network and one address family, in the form of the Go plugins. */
export interface MasqueradeRules {
  family: Family
  /** The chain of the container, which all its interfaces share. */
  chain: string
  comment: string
  /** Rules in the chain that accept packets to each address's own network, which is not masqueraded. */
  accepts: Rule[]
  /** The rule in the chain that masquerades all other packets except multicast. */
  masquerade: Rule
  /** Rules at the end of the chain that record the owners of addresses. They have no effect on packets. */
  marks: Rule[]
  /** Rules in POSTROUTING that jump to the chain for packets from the addresses. */
  jumps: Rule[]
}

export function masqueradeSearch(owner: Owner): Search {
  return { chains: [chainName("CNI-", owner)], parents: [PARENT] }
}

/**
 * Returns the rules for the addresses of an attachment. The rules of the Go plugins name the container but not its
 * interface. Each address therefore also has a mark: a rule without a target, whose comment names the interface.
 * Because of the mark, DEL of one interface leaves the rules of other interfaces alone. DEL of the Go plugins removes
 * the mark with the chain.
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

/** Returns the network of an address: "10.1.0.0/16". */
function subnetOf(address: Cidr): string {
  return formatCidr({ ip: networkOf(address), prefix: address.prefix })
}
