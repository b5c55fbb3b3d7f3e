import { isErrno, readTextFile } from "../libc/mod.ts"
import { findPrograms, type Programs } from "./programs.ts"
import type { Family, TableName } from "./rule.ts"

/** The tables of the older kind that this namespace has; a namespace has none until a program asks for one. */
const LISTS = { ip: "/proc/thread-self/net/ip_tables_names", ip6: "/proc/thread-self/net/ip6_tables_names" } as const

/**
 * The programs for the older kind of tables where the namespace has this table, so that something may be in it.
 * Undefined where it has not: asking the program would make it. Undefined also without the program, since nothing else
 * can read these tables.
 */
export function findLegacyTable(family: Family, table: TableName): Programs | undefined {
  return readNames(LISTS[family]).includes(table) ? findPrograms(family, "legacy") : undefined
}

function readNames(path: string): string[] {
  try {
    return readTextFile(path).split("\n")
  } catch (error) {
    if (isErrno(error, "ENOENT", "EACCES", "EPERM")) return [] // a kernel without them
    throw error
  }
}
