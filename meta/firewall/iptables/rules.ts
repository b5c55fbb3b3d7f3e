import { destinationOf, type Rule, type Search, sourceOf, targetOf } from "../../../pkg/iptables/mod.ts"
import { type Family, familyOf, hostCidr, ownerComment } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import { ACCEPT_MARK } from "../nftables/layout.ts"
import type { FirewallSpec } from "../spec.ts"

export const TABLE = "filter"
export const PARENT = "FORWARD"

/** Upstream's chains, in both families, for all containers. */
export const FORWARD = "CNI-FORWARD"
export const STAGE_1 = "CNI-ISOLATION-STAGE-1"
export const STAGE_2 = "CNI-ISOLATION-STAGE-2"

/**
 * A chain that no packet traverses. Its rules record the owner, policy and bridge of each address in `FORWARD`. The
 * accept rules themselves must equal upstream's, comments included, so that the Go plugin's DEL finds them.
 */
export const OWNERS = "CNI-FIREWALL-OWNERS"

/** All of these. */
export const firewallSearch: Search = { chains: [FORWARD, OWNERS, STAGE_1, STAGE_2], parents: [PARENT] }

const comment = (text: string) => ["-m", "comment", "--comment", text]
const POLICIES = "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)"

/** Sends forwarded packets to `FORWARD`. */
export const jumpToForward: Rule = { chain: PARENT, words: [...comment("CNI firewall plugin rules"), "-j", FORWARD] }

/** Sends forwarded packets through the policies, before any rule that accepts. */
export const jumpToPolicies: Rule = { chain: PARENT, words: [...comment(POLICIES), "-j", STAGE_1] }

/** The last rules in the chains of policies. */
export const returns: readonly Rule[] = [STAGE_1, STAGE_2].map((chain) => ({
  chain,
  words: [...comment(POLICIES), "-j", "RETURN"],
}))

const OVERRIDES = "CNI firewall plugin admin overrides"

/** Returns the jump to the administrator's rules, which come before any rule that accepts. */
export function jumpToAdmin(chain: string): Rule {
  return { chain: FORWARD, words: [...comment(OVERRIDES), "-j", chain] }
}

/** Whether a rule is such a jump, to any chain. */
export function isJumpToAdmin({ chain, words }: Rule): boolean {
  return chain === FORWARD && words.includes(OVERRIDES)
}

const mark = `0x${ACCEPT_MARK.toString(16)}`
const MARKED = "CNI firewall plugin, backend nftables"

/** Accepts the traffic that the nf_tables table accepts: that table cannot overrule a chain of iptables that drops. */
export const acceptMarked: Rule = {
  chain: FORWARD,
  words: [...comment(MARKED), "-m", "mark", "--mark", `${mark}/${mark}`, "-j", "ACCEPT"],
}

/** Whether a rule of the kernel is `acceptMarked`. */
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

/** Returns the address of a rule of `acceptRules`, also in the kernel's form; undefined for another rule. */
export function acceptedAddress(rule: Rule): string | undefined {
  const { chain, words } = rule
  if (chain !== FORWARD || targetOf(rule) !== "ACCEPT") return undefined
  const [option, ip, , match] = words
  if (option === "-s" && words.length === 4 && ip === sourceOf(rule)) return ip
  return option === "-d" && match === "conntrack" && words.length <= 8 ? destinationOf(rule) : undefined
}

/** Returns the rules of a policy for a bridge. The first for each chain must be the first there. */
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

/** The owner of an address, and the bridge and policy: a rule without a target. */
export interface Label {
  /** "10.1.0.2/32" */
  ip: string
  owner: string
  policy: Policy
  /** Undefined for policy open. */
  bridge: string | undefined
}

/** Returns the labels of an attachment's addresses of a family. */
export function labelsOf({ owner, addresses, policy, link }: FirewallSpec, family: Family): Label[] {
  const bridge = policy === "open" ? undefined : link?.bridge
  const ours = addresses.filter((ip) => familyOf(ip) === family)
  return ours.map((ip) => ({ ip: hostCidr(ip), owner: ownerComment(owner), policy, bridge }))
}

export function labelRule({ ip, owner, policy, bridge }: Label): Rule {
  const text = bridge === undefined ? owner : `${owner} ${policy} ${bridge}`
  return { chain: OWNERS, words: ["-s", ip, ...comment(text)] }
}

/** Returns the label in a rule; undefined for another rule. */
export function readLabel(rule: Rule): Label | undefined {
  const ip = sourceOf(rule)
  const at = rule.words.indexOf("--comment")
  const [owner, policy, bridge] = (at === -1 ? "" : (rule.words[at + 1] ?? "")).split(" ")
  if (rule.chain !== OWNERS || targetOf(rule) !== undefined || ip === undefined || !owner) return undefined
  if (policy !== "same-bridge" && policy !== "isolated") return { ip, owner, policy: "open", bridge: undefined }
  return { ip, owner, policy, bridge }
}
