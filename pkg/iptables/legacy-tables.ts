import { hasLegacyTable } from "./in-use.ts"
import { findPrograms, type Programs } from "./programs.ts"
import type { Family, TableName } from "./rule.ts"

/**
 * The programs for the older kind of tables where the namespace has this table, so that something may be in it.
 * Undefined where it has not: asking the program would make it. Undefined also without the program, since nothing else
 * can read these tables.
 */
export function findLegacyTable(family: Family, table: TableName): Programs | undefined {
  return hasLegacyTable(family, table) ? findPrograms(family, "legacy") : undefined
}
