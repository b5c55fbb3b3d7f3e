import {
  type Content,
  changeTable,
  chooseVariant,
  commentOf,
  containerComment,
  findEverywhere,
  isSameRule,
  narrow,
  printRule,
  type Rule,
  removeEverywhere,
  requirePrograms,
  restoreTable,
} from "../iptables/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { findLink, listAddresses } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { tableFamily } from "../nftables/mod.ts"
import { IptablesBackend, missingRules, type RuleBackend, type TablePart } from "../rules/mod.ts"
import { CniError, Code, formatCidr, hostCidr, isCniError, type Owner, ownerComment } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"
import { planAdd, planGc, planRemove } from "./iptables-plan.ts"
import { ANY_CHAIN, type MasqueradeRules, masqueradeRules, masqueradeSearch, PARENT, TABLE } from "./iptables-rules.ts"
import { byFamily, type MasqueradeSpec } from "./spec.ts"

const NOTHING = { chains: [], rules: [] } as const

/** The masquerade in the Go plugins' form, added by either suite. `remove` gets the container's namespace as a hint. */
export class IptablesMasquerade
  extends IptablesBackend<MasqueradeSpec>
  implements RuleBackend<MasqueradeSpec, NamespaceFile>
{
  protected readonly table = TABLE

  /** Adds the masquerade of an attachment, with one run of `iptables-restore` per address family. Throws `CniError`. */
  add({ owner, addresses }: MasqueradeSpec, undo: Undo): void {
    const variant = chooseVariant(this.socket)
    const search = masqueradeSearch(owner)
    const mark = ownerComment(owner)
    try {
      const found = findEverywhere(this.socket, TABLE, search)
      const parts = byFamily(addresses).map(([family, addresses]) => {
        return { programs: requirePrograms(family, variant), rules: masqueradeRules(family, owner, addresses) }
      })
      undo.defer("masquerade", () => this.#removeMarked(owner, () => true))
      for (const { programs, rules } of parts) {
        // If the family has no rules yet, the table is not read before the change.
        const isNew = !found.some(({ family }) => family === programs.family)
        if (isNew) restoreTable(programs, TABLE, planAdd(rules, NOTHING, mark))
        else changeTable(programs, TABLE, (content) => planAdd(rules, narrow(content, search), mark))
      }
    } catch (cause) {
      const what = addresses.map(formatCidr).join(" and ")
      const code = isCniError(cause) ? cause.code : Code.Internal
      throw new CniError(code, `Cannot masquerade ${what} by iptables`, { cause })
    }
  }

  protected partsOf({ owner, addresses }: MasqueradeSpec): TablePart[] {
    const search = masqueradeSearch(owner)
    const mark = ownerComment(owner)
    return byFamily(addresses).map(([family, list]) => {
      const rules = masqueradeRules(family, owner, list)
      return {
        family,
        isMissing: (found) => findFault(rules, narrow(found, search)) !== undefined,
        plan: (found) => planAdd(rules, narrow(found, search), mark),
      }
    })
  }

  check({ owner, addresses }: MasqueradeSpec): void {
    const found = findEverywhere(this.socket, TABLE, masqueradeSearch(owner))
    for (const [family, list] of byFamily(addresses)) {
      const target = masqueradeRules(family, owner, list)
      const faults = found.filter((place) => place.family === family).map((place) => findFault(target, place))
      if (faults.includes(undefined)) continue
      const what = `the masquerade of ${ownerComment(owner)} by iptables`
      throw faults[0]
        ? missingRules(what, ...faults[0])
        : missingRules(what, `chain ${target.chain} in table ${tableFamily[family]} ${TABLE}`)
    }
  }

  /**
   * Removes the masquerade of an attachment. Runs a program only for legacy tables. Reads `namespace` only if the Go
   * plugins have left rules that do not name the container's interface. Throws `CniError`.
   */
  remove(owner: Owner, namespace: NamespaceFile): void {
    let beside: Set<string> | undefined
    this.#removeMarked(owner, (source) => {
      beside ??= addressesBeside(namespace, owner.ifName)
      return beside.has(source)
    })
  }

  /** Removes an interface's rules. `isInUse` reports whether an address without mark is of another interface. */
  #removeMarked(owner: Owner, isInUse: (source: string) => boolean): void {
    const [mark, comment] = [ownerComment(owner), containerComment(owner)]
    const isOwnerStale = (found: string) => found === mark
    const isAddressStale = (source: string) => !isInUse(source)
    removeEverywhere({ socket: this.socket, table: TABLE }, masqueradeSearch(owner), (found) => {
      const [chain = ""] = found.chains
      return planRemove(found, { chain, comment, isOwnerStale, isAddressStale })
    })
  }

  gc(network: string, valid: readonly Owner[]): void {
    const search = { chains: ANY_CHAIN, parents: [PARENT] }
    removeEverywhere({ socket: this.socket, table: TABLE }, search, (found) => planGc(found, network, valid))
  }
}

/** Returns the first missing rule, and a text with the similar rules that exist; `undefined` if no rule is missing. */
function findFault(
  { comment, accepts, masquerade, jumps }: MasqueradeRules,
  { rules }: Content,
): [expected: string, found: string] | undefined {
  const missing = [...accepts, masquerade, ...jumps].find((each) => !rules.some((rule) => isSameRule(rule, each)))
  return missing && [`rule "${printRule(missing)}"`, describe(rules, missing, comment)]
}

function describe(rules: readonly Rule[], { chain }: Rule, comment: string): string {
  const similar = rules.filter((rule) => rule.chain === chain && commentOf(rule) === comment)
  return similar.map((rule) => `"${printRule(rule)}"`).join(", ") || "no similar rule"
}

/**
 * Returns the addresses of a container's other interfaces, each as "10.1.0.2/32". Returns an empty set if the
 * container's namespace no longer exists, or has too many addresses to list in time. The rules of all interfaces are
 * then removed, which affects only that container.
 */
function addressesBeside(namespace: NamespaceFile, ifName: string): Set<string> {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return new Set()
  using inside = sandbox.openRoute()
  const own = findLink(inside, ifName)?.index
  try {
    const others = listAddresses(inside).filter(({ index }) => index !== own)
    return new Set(others.map(({ ip }) => hostCidr(ip)))
  } catch (error) {
    if (isErrno(error, "ETIME")) return new Set()
    throw error
  }
}
