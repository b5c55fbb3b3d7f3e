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

/** What one attachment has in one address family's table of iptables. */
export interface TablePart {
  readonly family: Family
  /** Whether a rule is not there, or not in its place. */
  isMissing(found: Content): boolean
  /** Makes them be there; throws `CniError` where others have what they are for. */
  plan(found: Content): readonly Change[]
}

/**
 * Restores the rules of many attachments, whose parts `partsOf` returns, in one table of iptables: one `iptables-save` and one
 * `iptables-restore` for each address family, however many attachments there are. Throws `CniError`.
 */
export function restoreByIptables<Spec>(
  socket: NetlinkSocket | undefined,
  table: TableName,
  specs: readonly Spec[],
  isDry: boolean,
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
 * The part of a `RuleBackend` that all features have in common which keep their rules in one table of iptables. Their `add` runs one
 * `iptables-restore` for each family: the reverse goes to `undo` before the first, since the second may fail.
 */
export abstract class IptablesBackend<Spec> {
  /** To nf_tables, where iptables keeps its rules today; undefined on a kernel without. */
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
    return restoreByIptables(this.socket, this.table, specs, isDry, (spec) => this.partsOf(spec))
  }
}

/** Plans for each attachment on what the ones before it have left. */
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

/** Rules that are in a table of nf_tables of their own. */
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

/** The part of a `RuleBackend` that all features have in common whose objects in nf_tables have their owner as comment. */
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

  /**
   * The reverse of `add`. Missing rules are no error. Do not call it after a refused change: an existing table may be
   * another program's.
   */
  protected takeBack(owner: Owner): void {
    this.filter.forgetTables()
    if (this.mayHold()) this.removeAll(ofOwner(owner))
  }
}

/** What is to be removed, by its comment. */
export interface Sought {
  isStale(comment: string): boolean
  /**
   * An object with a matching comment has one of these in its bytes; `undefined` when every object has to be decoded.
   */
  readonly needles?: readonly Uint8Array[]
  /** The one attachment that it is of, if it is one. */
  readonly owner?: Owner
}

/** What one attachment has. */
export function ofOwner(owner: Owner): Sought {
  const comment = ownerComment(owner)
  return { isStale: (found) => found === comment, needles: [encodeUtf8(comment)], owner }
}

/** Seeks the rules of a network's attachments that are not in the list of valid ones. */
export function ofStale(network: string, valid: readonly Owner[]): Sought {
  return { isStale: staleOf(network, valid) }
}

/**
 * Makes in one transaction what `plan` finds missing, or in a dry run only reads; returns what `plan` says became of each attachment.
 * Throws `NetlinkError`.
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

/** The error of CHECK for what is not as ADD has left it. */
export function missingRules(what: string, expected: string, found = "none"): CniError {
  return new CniError(Code.Internal, `Cannot find ${what}: expected ${expected}; found ${found}`)
}
