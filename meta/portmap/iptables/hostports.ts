import {
  type Change,
  type Content,
  changeTable,
  chooseVariant,
  findEverywhere,
  type Programs,
  printRule,
  readTable,
  removeEverywhere,
  requirePrograms,
  restoreTable,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  type Filter,
  IptablesBackend,
  type Restored,
  type RuleBackend,
  type TablePart,
} from "../../../pkg/rules/mod.ts"
import { AF_INET, AF_INET6, CniError, isCniError, type Owner } from "../../../pkg/types/mod.ts"
import { Undo } from "../../../pkg/undo/mod.ts"
import type { HostportHints, PortmapSpec } from "../mapping.ts"
import { isHolderGone } from "../port-holder.ts"
import { type AttachmentRules, findAhead, findMissing, planAdd, planDelete, planGc } from "./plan.ts"
import { anySearch, containerSearch, DNAT, iptablesRules, TABLE } from "./rules.ts"

/** Keeps 127.0.0.0/8 closed while `route_localnet` is on for a link. */
interface LocalnetGuard {
  isGuarded(link: string): boolean
  guard(link: string, undo: Undo): void
}

/** Port mappings by upstream's chains and rules, of either suite. */
export class IptablesHostports
  extends IptablesBackend<PortmapSpec>
  implements RuleBackend<PortmapSpec, HostportHints, readonly Uint8Array[]>
{
  protected readonly table = TABLE
  readonly #localnet: LocalnetGuard | undefined
  #printed: { found: Content; texts: ReadonlySet<string> } | undefined

  /** `localnet` is undefined where the kernel has no nf_tables. */
  constructor(filter: Filter | undefined, localnet: LocalnetGuard | undefined) {
    super(filter)
    this.#localnet = localnet
  }

  /** One `iptables-restore` for each address family. Throws `CniError` that names the holder of a port that is taken. */
  add(spec: PortmapSpec, undo: Undo): readonly Uint8Array[] {
    if (spec.openedLink !== undefined) this.#localnet?.guard(spec.openedLink, undo)
    try {
      return this.#addRules(spec, undo)
    } catch (error) {
      throw namingKeys(spec, error)
    }
  }

  #addRules(spec: PortmapSpec, undo: Undo): readonly Uint8Array[] {
    const variant = chooseVariant(this.socket)
    const families = spec.addresses.map((mapped) => {
      const programs = requirePrograms(mapped.family, variant)
      const rules = iptablesRules(spec, mapped)
      const plan = (found: Content) => planAdd(rules, found, isGone)
      const found = readTable(programs, TABLE)
      return { programs, plan, changes: plan(found), ahead: findAhead(rules, found) } // a port that is taken shows before any change
    })
    undo.defer("map ports", () => this.remove(spec.owner))
    for (const { programs, plan, changes } of families) change(programs, plan, changes)
    return families.flatMap(({ ahead }) => ahead)
  }

  protected partsOf(spec: PortmapSpec): TablePart[] {
    return spec.addresses.map((mapped) => {
      const rules = iptablesRules(spec, mapped)
      return {
        family: mapped.family,
        isMissing: (found) => findMissing(rules, found, false, this.#printedIn(found)) !== undefined,
        plan: (found) => planAdd(rules, found, isGone),
      }
    })
  }

  /** The rules of a table as text, printed once for all attachments. */
  #printedIn(found: Content): ReadonlySet<string> {
    if (this.#printed?.found !== found) this.#printed = { found, texts: new Set(found.rules.map(printRule)) }
    return this.#printed.texts
  }

  /** Before the rules, the guard of the setting that they need. */
  override restore(specs: readonly PortmapSpec[], isDry: boolean): Restored[] {
    const guard = this.#localnet
    const links = new Set(specs.flatMap(({ openedLink }) => openedLink ?? []))
    const open = new Set(guard ? [...links].filter((link) => !guard.isGuarded(link)) : [])
    using undo = new Undo(() => {})
    if (!isDry) for (const link of open) guard?.guard(link, undo)
    undo.keep()
    return super.restore(specs, isDry).map((each, at) => {
      return each === "whole" && open.has(specs[at]?.openedLink ?? "") ? "missing" : each
    })
  }

  /** Throws `CniError` that names the first rule that is missing. */
  check(spec: PortmapSpec): void {
    const variant = chooseVariant(this.socket)
    for (const mapped of spec.addresses) {
      const found = readTable(requirePrograms(mapped.family, variant), TABLE)
      const hasConditions = spec.conditions[mapped.family].length > 0
      const missing = findMissing(iptablesRules(spec, mapped), found, hasConditions)
      if (missing) throw missing
    }
  }

  /** Needs no program except for the older tables. The chains that all containers share stay. Throws `CniError`. */
  remove(owner: Owner): void {
    removeEverywhere(this.socket, TABLE, containerSearch(owner), (found) => planDelete(found, owner))
  }

  gc(network: string, valid: readonly Owner[]): void {
    removeEverywhere(this.socket, TABLE, anySearch, (found) => planGc(found, network, valid))
  }
}

function isGone({ owner, netns }: AttachmentRules): boolean {
  return isHolderGone(owner, netns)
}

/** Makes the changes; when they are refused, perhaps because others were quicker, those of a new plan. */
function change(programs: Programs, plan: (found: Content) => Change[], changes: readonly Change[]): void {
  try {
    restoreTable(programs, TABLE, changes)
  } catch {
    changeTable(programs, TABLE, plan)
  }
}

/** Whether iptables maps ports of any container. Throws `CniError`, `NetlinkError`. */
export function hasIptablesHostports(socket: NetlinkSocket | undefined): boolean {
  return findEverywhere(socket, TABLE, { chains: [DNAT], parents: [] }).some(({ rules }) => rules.length > 0)
}

/** A refusal, with the keys of the configuration whose words are in the rules: they may be what is refused. */
function namingKeys({ conditions, externalSetMarkChain }: PortmapSpec, error: unknown): unknown {
  const keys = externalSetMarkChain === undefined ? [] : ["externalSetMarkChain"]
  if (conditions[AF_INET].length > 0) keys.push("conditionsV4")
  if (conditions[AF_INET6].length > 0) keys.push("conditionsV6")
  if (!isCniError(error) || keys.length === 0) return error
  const named = `the rules have what ${keys.map((key) => `"${key}"`).join(" and ")} says`
  return new CniError(error.code, error.message, { details: [error.details, named].filter(Boolean).join("; ") })
}
