import { chooseVariant, findPrograms, isTableInUse, type TableName } from "../iptables/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { AF_INET } from "../types/mod.ts"
import type { Filter } from "./backend.ts"

/**
 * The part of a `RuleBackend` that all features have in common which keep their rules in one table of iptables. Their `add` runs one
 * `iptables-restore` for each family: the reverse goes to `undo` before the first, since the second may fail.
 */
export abstract class IptablesBackend {
  /** To nf_tables, where iptables keeps its rules today; undefined on a kernel without. */
  protected readonly socket: NetlinkSocket | undefined
  protected abstract readonly table: TableName
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
}
