import { encodeUtf8 } from "../engine/mod.ts"
import {
  applied,
  type Change,
  type Content,
  changeTable,
  chooseVariant,
  findPrograms,
  isTableInUse,
  readTable,
  requirePrograms,
  type TableName,
} from "../iptables/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { atomically, type Netfilter, type Operation } from "../nftables/mod.ts"
import { AF_INET, CniError, Code, type Family, isCniError, type Owner, ownerComment, staleOf } from "../types/mod.ts"
import type { Filter, Restored } from "./backend.ts"

/** The rules of one attachment in one address family's table of iptables. */
export interface TablePart {
  readonly family: Family
  /** Reports whether a rule is missing or at the wrong position. */
  isMissing(found: Content): boolean
  /** Returns the changes that add the missing rules. Throws `CniError` if rules of another owner are in their place. */
  plan(found: Content): readonly Change[]
}

/**
 * Restores the rules of many attachments in one table of iptables. `partsOf` returns the parts of an attachment. Runs
 * one `iptables-save` and one `iptables-restore` per address family, for any number of attachments. Throws `CniError`.
 */
export function restoreByIptables<Spec>(
  { socket, table, isDry }: { socket: NetlinkSocket | undefined; table: TableName; isDry: boolean },
  specs: readonly Spec[],
  partsOf: (spec: Spec) => readonly TablePart[],
): Restored[] {
  const variant = chooseVariant(socket)
  const became: Restored[] = specs.map(() => "whole")
  const parts = specs.flatMap((spec, at) => partsOf(spec).map((part) => ({ part, at })))
  for (const [family, ours] of Map.groupBy(parts, ({ part }) => part.family)) {
    const programs = requirePrograms(family, variant)
    const plan = (found: Content) => planParts(found, ours, became)
    if (isDry) plan(readTable(programs, table))
    else changeTable(programs, table, plan)
  }
  return became
}

/**
 * The common part of `RuleBackend` for features with rules in one table of iptables. `add` runs one `iptables-restore`
 * per family. It registers the reverse with `undo` before the first run, because the second run may fail.
 */
export abstract class IptablesBackend<Spec> {
  /** A socket to nf_tables, where iptables keeps its rules today. Undefined on a kernel without nf_tables. */
  protected readonly socket: NetlinkSocket | undefined
  protected abstract readonly table: TableName
  protected abstract partsOf(spec: Spec): readonly TablePart[]
  readonly #filter: Filter | undefined

  constructor(filter: Filter | undefined) {
    this.#filter = filter
    this.socket = filter?.socket
  }

  isUsable(): boolean {
    return findPrograms(AF_INET, chooseVariant(this.socket)) !== undefined
  }

  mayHold(): boolean {
    return isTableInUse(this.#filter, this.table)
  }

  restore(specs: readonly Spec[], isDry: boolean): Restored[] {
    return restoreByIptables({ socket: this.socket, table: this.table, isDry }, specs, (spec) => this.partsOf(spec))
  }
}

/** Plans the changes of each part on top of the changes of the previous parts. */
function planParts(found: Content, parts: readonly { part: TablePart; at: number }[], became: Restored[]): Change[] {
  let present = found
  return parts.flatMap(({ part, at }) => {
    if (!part.isMissing(found)) return []
    try {
      const changes = part.plan(present)
      present = applied(present, changes)
      if (became[at] === "whole") became[at] = "missing"
      return changes
    } catch (error) {
      if (!isCniError(error)) throw error
      became[at] = error
      return []
    }
  })
}

/** The common part of features whose rules have their own table in nf_tables. */
export abstract class InTable<F extends Filter<Netfilter> = Filter<Netfilter>> {
  protected abstract readonly table: string
  readonly filter: F

  constructor(filter: F) {
    this.filter = filter
  }

  get socket(): F["socket"] {
    return this.filter.socket
  }

  mayHold(): boolean {
    return this.filter.hasTable(this.table)
  }
}

/** The common part of `RuleBackend` for features in nf_tables. Their objects have the owner as comment. */
export abstract class NftablesBackend<
  Hints = unknown,
  F extends Filter<Netfilter> = Filter<Netfilter>,
> extends InTable<F> {
  /** Removes the matching rules in one transaction, and the table with its last rule. Throws `NetlinkError`. */
  protected abstract removeAll(sought: Sought, hints?: Hints): void

  remove(owner: Owner, hints?: Hints): void {
    this.removeAll(ofOwner(owner), hints)
  }

  gc(network: string, valid: readonly Owner[]): void {
    this.removeAll(ofStale(network, valid))
  }

  /** Reverses `add`. Ignores missing rules. Must not follow a refused change: the table may be another program's. */
  protected takeBack(owner: Owner): void {
    this.filter.forgetTables()
    if (this.mayHold()) this.removeAll(ofOwner(owner))
  }
}

/** The search for objects to remove, by their comments. */
export interface Sought {
  isStale(comment: string): boolean
  /** Byte strings, one of which each object with a matching comment contains. If `undefined`, all are decoded. */
  readonly needles?: readonly Uint8Array[]
  /** The owner, in a search for a single attachment. */
  readonly owner?: Owner
}

/** Returns the search for one attachment's rules. */
export function ofOwner(owner: Owner): Sought {
  const comment = ownerComment(owner)
  return { isStale: (found) => found === comment, needles: [encodeUtf8(comment)], owner }
}

/** Returns the search for rules of a network's attachments that are not in `valid`. */
export function ofStale(network: string, valid: readonly Owner[]): Sought {
  return { isStale: staleOf(network, valid) }
}

/**
 * Creates in one transaction the rules that `plan` finds missing. Only reads in a dry run. Returns the plan's outcome
 * for each attachment. Throws `NetlinkError`.
 */
export function restoreBy(
  socket: Pick<Netfilter, "fd" | "get" | "transact">,
  isDry: boolean,
  plan: () => { operations: readonly Operation[]; became: Restored[] },
): Restored[] {
  let planned = { operations: [] as readonly Operation[], became: [] as Restored[] }
  const planOnce = () => {
    planned = plan()
    return planned.operations
  }
  if (isDry) planOnce()
  else atomically(socket, planOnce)
  return planned.became
}

/** Returns CHECK's error for rules that differ from those of ADD. */
export function missingRules(what: string, expected: string, found = "none"): CniError {
  return new CniError(Code.Internal, `Cannot find ${what}: expected ${expected}; found ${found}`)
}
