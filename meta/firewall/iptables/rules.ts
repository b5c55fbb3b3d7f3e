import { destinationOf, type Rule, type Search, sourceOf, targetOf } from "../../../pkg/iptables/mod.ts"
import { type Family, familyOf, hostCidr, ownerComment } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import { ACCEPT_MARK } from "../nftables/layout.ts"
import type { FirewallSpec } from "../spec.ts"

export const TABLE = "filter"
export const PARENT = "FORWARD"

/** Upstream's chains, which exist in both families and serve all containers. */
export const FORWARD = "CNI-FORWARD"
export const STAGE_1 = "CNI-ISOLATION-STAGE-1"
export const STAGE_2 = "CNI-ISOLATION-STAGE-2"

/**
 * A chain that no packet traverses. Its rules record the owner, policy and bridge of each address in `CNI-FORWARD`. The
 * accept rules cannot record these: they must equal upstream's, comments included, so that the Go plugin's DEL finds
 * them.
 */
export const OWNERS = "CNI-FIREWALL-OWNERS"

/** All of our and upstream's chains, and the jumps to them. */
export const firewallSearch: Search = { chains: [FORWARD, OWNERS, STAGE_1, STAGE_2], parents: [PARENT] }

const comment = (text: string) => ["-m", "comment", "--comment", text]
const POLICIES = "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)"

export const jumpToForward: Rule = { chain: PARENT, words: [...comment("CNI firewall plugin rules"), "-j", FORWARD] }

/** The jump to the chains of policies. It must come before any rule that accepts. */
export const jumpToPolicies: Rule = { chain: PARENT, words: [...comment(POLICIES), "-j", STAGE_1] }

/** The last rules in the chains of policies, which return. */
export const returns: readonly Rule[] = [STAGE_1, STAGE_2].map((chain) => ({
  chain,
  words: [...comment(POLICIES), "-j", "RETURN"],
}))

const OVERRIDES = "CNI firewall plugin admin overrides"

/** Returns the jump to the administrator's chain. It must come before any rule that accepts. */
export function jumpToAdmin(chain: string): Rule {
  return { chain: FORWARD, words: [...comment(OVERRIDES), "-j", chain] }
}

/** Reports whether a rule is a jump to an administrator's chain, of any name. */
export function isJumpToAdmin({ chain, words }: Rule): boolean {
  return chain === FORWARD && words.includes(OVERRIDES)
}

const mark = `0x${ACCEPT_MARK.toString(16)}`
const MARKED = "CNI firewall plugin, backend nftables"

/** The rule that accepts the traffic accepted by the nf_tables table, which cannot overrule a drop in iptables. */
export const acceptMarked: Rule = {
  chain: FORWARD,
  words: [...comment(MARKED), "-m", "mark", "--mark", `${mark}/${mark}`, "-j", "ACCEPT"],
}

export function isAcceptMarked(rule: Rule): boolean {
  return rule.chain === FORWARD && rule.words.includes(MARKED) && targetOf(rule) === "ACCEPT"
}

/** Returns the rules that accept an address's traffic, in upstream's order. */
export function acceptRules(ip: string): Rule[] {
  const answers = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"]
  return [
    { chain: FORWARD, words: ["-d", ip, ...answers, "-j", "ACCEPT"] },
    { chain: FORWARD, words: ["-s", ip, "-j", "ACCEPT"] },
  ]
}

/** Returns the address in a rule of `acceptRules`, however the kernel prints it; undefined for another rule. */
export function acceptedAddress(rule: Rule): string | undefined {
  const { chain, words } = rule
  if (chain !== FORWARD || targetOf(rule) !== "ACCEPT") return undefined
  const [option, ip, , match] = words
  if (option === "-s" && words.length === 4 && ip === sourceOf(rule)) return ip
  return option === "-d" && match === "conntrack" && words.length <= 8 ? destinationOf(rule) : undefined
}

/** Returns the rules of a policy for a bridge. The first of them in each chain must be the first of the whole chain. */
export function policyRules(policy: Policy, bridge: string): Rule[] {
  if (policy === "open") return []
  const own = comment(`CNI firewall plugin rules (ingressPolicy: ${policy})`)
  const onBridge: Rule = { chain: STAGE_1, words: ["-i", bridge, "-o", bridge, ...own, "-j", "DROP"] }
  return [
    ...(policy === "isolated" ? [onBridge] : []),
    { chain: STAGE_1, words: ["-i", bridge, "!", "-o", bridge, ...own, "-j", STAGE_2] },
    { chain: STAGE_2, words: ["-o", bridge, ...comment(POLICIES), "-j", "DROP"] },
  ]
}

/** A record of an address with its owner, policy and bridge, stored as a rule without a target. */
export interface Label {
  /** "10.1.0.2/32" */
  ip: string
  owner: string
  policy: Policy
  /** Undefined for the policy "open". */
  bridge: string | undefined
}

export function labelsOf({ owner, addresses, policy, link }: FirewallSpec, family: Family): Label[] {
  const bridge = policy === "open" ? undefined : link?.bridge
  const ours = addresses.filter((ip) => familyOf(ip) === family)
  return ours.map((ip) => ({ ip: hostCidr(ip), owner: ownerComment(owner), policy, bridge }))
}

export function labelRule({ ip, owner, policy, bridge }: Label): Rule {
  const text = bridge === undefined ? owner : `${owner} ${policy} ${bridge}`
  return { chain: OWNERS, words: ["-s", ip, ...comment(text)] }
}

/** Parses a label; undefined for any other rule. */
export function readLabel(rule: Rule): Label | undefined {
  const ip = sourceOf(rule)
  const at = rule.words.indexOf("--comment")
  const [owner, policy, bridge] = (at === -1 ? "" : (rule.words[at + 1] ?? "")).split(" ")
  if (rule.chain !== OWNERS || targetOf(rule) !== undefined || ip === undefined || !owner) return undefined
  if (policy !== "same-bridge" && policy !== "isolated") return { ip, owner, policy: "open", bridge: undefined }
  return { ip, owner, policy, bridge }
}
