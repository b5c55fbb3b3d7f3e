import type { Netfilter } from "../nftables/mod.ts"
import type { Owner } from "../types/mod.ts"
import type { Filter } from "./backend.ts"
import { ofOwner, ofStale, type Sought } from "./sought.ts"

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
  /** Removes what is sought in one transaction; the table goes with the last rule. Throws `NetlinkError`. */
  protected abstract removeAll(sought: Sought, hints?: Hints): void

  remove(owner: Owner, hints?: Hints): void {
    this.removeAll(ofOwner(owner), hints)
  }

  gc(network: string, valid: readonly Owner[]): void {
    this.removeAll(ofStale(network, valid))
  }

  /**
   * The reverse of `add`. That there is nothing is success. Not for a change that was refused: a table in the way may be another
   * program's.
   */
  protected takeBack(owner: Owner): void {
    this.filter.forgetTables()
    if (this.mayHold()) this.removeAll(ofOwner(owner))
  }
}
