import {
  type Content,
  changeTable,
  chooseVariant,
  findEverywhere,
  type Programs,
  readTable,
  removeEverywhere,
  requirePrograms,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { getGeneration } from "../../../pkg/nftables/mod.ts"
import {
  IptablesBackend,
  missingRules,
  type Restored,
  type RuleBackend,
  type TablePart,
} from "../../../pkg/rules/mod.ts"
import {
  CniError,
  Code,
  FAMILIES,
  type Family,
  familyOf,
  hostCidr,
  type Owner,
  ownerComment,
  staleOf,
} from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import type { DelHints, FirewallSpec } from "../spec.ts"
import { findMissing, type IptablesSpec, planAdd, planRemove, type Texts, textsOf } from "./plan.ts"
import { acceptedAddress, FORWARD, firewallSearch, labelsOf, OWNERS, readLabel, TABLE } from "./rules.ts"

/** The maximum number of attempts to add rules. An attempt fails if another process then removes a shared rule. */
const ATTEMPTS = 10

/** The firewall rules in iptables, in upstream's chains. Rules that the Go plugin added are checked and removed too. */
export class IptablesFirewall extends IptablesBackend<FirewallSpec> implements RuleBackend<FirewallSpec, DelHints> {
  protected readonly table = TABLE
  #printed: { found: Content; texts: Texts } | undefined

  /** Adds the rules of an attachment by one `iptables-restore` per address family. Throws `CniError`. */
  add(spec: FirewallSpec, undo: Undo): void {
    const variant = chooseVariant(this.socket)
    const families = iptablesSpecs(spec).map(({ family, rules }) => ({
      rules,
      programs: requirePrograms(family, variant),
    }))
    undo.defer("let traffic through", () => this.remove(spec.owner))
    const netfilter = variant === "default" ? this.socket : undefined
    for (const { programs, rules } of families) addRules(netfilter, programs, rules)
  }

  protected partsOf(spec: FirewallSpec): TablePart[] {
    return iptablesSpecs(spec).map(({ family, rules }) => ({
      family,
      isMissing: (found) => findMissing(rules, found, this.#textsIn(found)) !== undefined,
      plan: (found) => planAdd(rules, found),
    }))
  }

  /** Returns the rules of a table as text. Prints the rules only once for all attachments. */
  #textsIn(found: Content): Texts {
    if (this.#printed?.found !== found) this.#printed = { found, texts: textsOf(found) }
    return this.#printed.texts
  }

  /**
   * Restores rules until none is missing, because DEL of another attachment may remove a shared one. Throws `CniError`.
   */
  override restore(specs: readonly FirewallSpec[], isDry: boolean): Restored[] {
    const became = super.restore(specs, isDry)
    for (let attempt = 1; !isDry && became.includes("missing"); attempt++) {
      const again = super.restore(specs, false)
      if (!again.includes("missing")) break
      if (attempt === ATTEMPTS)
        throw new CniError(Code.TryAgainLater, `Cannot change table ${TABLE}: other programs keep changing it`)
    }
    return became
  }

  /** Checks the rules of an attachment. Throws `CniError` that names the first missing rule. */
  check(spec: FirewallSpec): void {
    const variant = chooseVariant(this.socket)
    for (const { family, rules } of iptablesSpecs(spec)) {
      const look = () => findMissing(rules, readTable(requirePrograms(family, variant), TABLE))
      // The table may change while it is listed, so only a rule that is missing twice counts as missing.
      const missing = look() && look()
      if (missing !== undefined) throw missingRules(`the firewall rules of ${rules.owner} by iptables`, missing)
    }
  }

  /**
   * Removes the rules of an attachment. Our rules are found by labels, the Go plugin's by addresses. The rules for a
   * bridge's policy are removed with the last attachment on the bridge. Only iptables-legacy needs a program. Throws
   * `CniError`.
   */
  remove(owner: Owner, { addresses, bridge }: DelHints = { addresses: [], bridge: undefined }): void {
    const comment = ownerComment(owner)
    const isOwnerStale = (found: string) => found === comment
    this.#removeAll(isOwnerStale, addresses.map(hostCidr), bridge === undefined ? [] : [bridge])
  }

  gc(network: string, valid: readonly Owner[]): void {
    this.#removeAll(staleOf(network, valid), [], [])
  }

  #removeAll(isOwnerStale: (owner: string) => boolean, addresses: readonly string[], bridges: readonly string[]): void {
    removeEverywhere({ socket: this.socket, table: TABLE }, firewallSearch, (found) => {
      return planRemove(found, { isOwnerStale, addresses, bridges })
    })
  }
}

/** Returns addresses like "10.1.0.2/32" that iptables accepts, for either suite. Throws `CniError`, `NetlinkError`. */
export function listAccepted(socket: NetlinkSocket | undefined): string[] {
  const found = findEverywhere(socket, TABLE, { chains: [FORWARD], parents: [] })
  return found.flatMap(({ rules }) => rules.flatMap((rule) => acceptedAddress(rule) ?? []))
}

/**
 * Removes the chain of labels. From then on DEL finds our rules by addresses, like the Go suite's. Returns whether the
 * chain existed. Throws `CniError`.
 */
export function removeLabels(socket: NetlinkSocket | undefined): boolean {
  const search = { chains: [OWNERS], parents: [] }
  const isThere = findEverywhere(socket, TABLE, search).length > 0
  if (isThere) removeEverywhere({ socket, table: TABLE }, search, (found) => found)
  return isThere
}

/** Returns an attachment's rules for each family of its addresses. For any other family, `iptables` may be missing. */
function iptablesSpecs(spec: FirewallSpec): { family: Family; rules: IptablesSpec }[] {
  const { owner, policy, link, adminChain, addresses } = spec
  const common = { network: owner.network, owner: ownerComment(owner), adminChain, policy, bridge: link?.bridge }
  return FAMILIES.filter((family) => addresses.some((ip) => familyOf(ip) === family)).map((family) => ({
    family,
    rules: { ...common, labels: labelsOf(spec, family) },
  }))
}

/**
 * Adds an attachment's rules to a table. DEL of another attachment may remove a shared rule at the same time, so this
 * repeats until no rule is missing. `netfilter` is given if iptables keeps its rules in nf_tables; if the generation of
 * the rule set has then increased by one only, no other process has changed it, and no check is needed.
 */
function addRules(netfilter: NetlinkSocket | undefined, programs: Programs, rules: IptablesSpec): void {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = netfilter && getGeneration(netfilter)
    changeTable(programs, TABLE, (found) => planAdd(rules, found))
    const isOnlyChange = netfilter && before !== undefined && getGeneration(netfilter) === before + 1
    if (isOnlyChange || findMissing(rules, readTable(programs, TABLE)) === undefined) return
  }
  throw new CniError(Code.TryAgainLater, `Cannot change table ${TABLE}: other programs keep changing it`)
}

/** Returns the addresses, like "10.1.0.2/32", and owners in iptables' labels. Throws `CniError`, `NetlinkError`. */
export function listLabels(socket: NetlinkSocket | undefined): { ip: string; owner: string }[] {
  return findEverywhere(socket, TABLE, firewallSearch).flatMap(({ rules }) =>
    rules.flatMap((rule) => readLabel(rule) ?? []),
  )
}
