import { CniError, Code } from "../types/mod.ts"
import type { Change } from "./change.ts"
import type { Programs } from "./programs.ts"
import type { Content, TableName } from "./rule.ts"
import { readTable, restoreTable } from "./run.ts"

/** Each lost race means that somebody else has changed the table. */
const ATTEMPTS = 10

/**
 * Makes the changes that `plan` decides on after reading the table, in one `iptables-restore`. When that is refused
 * because the table has changed since it was read (another caller has created the same chain, or deleted the same rule),
 * `plan` is asked again. No changes: nothing is run but `iptables-save`. Throws `CniError`; code 11 when that went on ten
 * times.
 *
 * @example
 * changeTable(programs, "nat", ({ chains }) => (chains.includes("CNI-X") ? [] : [chain.create("CNI-X"), rule.append(jump)]))
 */
export function changeTable(programs: Programs, table: TableName, plan: (found: Content) => readonly Change[]): void {
  let found = readTable(programs, table)
  for (let attempt = 1; ; attempt++) {
    try {
      restoreTable(programs, table, plan(found))
      return
    } catch (error) {
      const now = readTable(programs, table)
      if (JSON.stringify(now) === JSON.stringify(found)) throw error
      if (attempt === ATTEMPTS) {
        throw new CniError(Code.TryAgainLater, `Cannot change table ${table}: others keep changing it`, {
          cause: error,
        })
      }
      found = now
    }
  }
}
