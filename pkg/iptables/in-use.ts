import { isErrno, readTextFile } from "../libc/mod.ts"
import type { Family, TableName } from "./rule.ts"

/** The tables of the older kind that this namespace has; a namespace has none until a program asks for one. */
const LISTS = { ip: "/proc/thread-self/net/ip_tables_names", ip6: "/proc/thread-self/net/ip6_tables_names" } as const

/**
 * Whether iptables may keep anything in this table of the thread's namespace: in a table of nf_tables, which `filter` has
 * seen, or in the older kind. False on most hosts without kube-proxy, and then there is nothing to find or remove.
 */
export function isTableInUse(filter: { hasTable(name: string): boolean } | undefined, table: TableName): boolean {
  return filter?.hasTable(table) || hasLegacyTable("ip", table) || hasLegacyTable("ip6", table)
}

/** Whether the namespace has this table of the older kind, so that something may be in it. */
export function hasLegacyTable(family: Family, table: TableName): boolean {
  try {
    return readTextFile(LISTS[family]).split("\n").includes(table)
  } catch (error) {
    if (isErrno(error, "ENOENT", "EACCES", "EPERM")) return false // a kernel without them
    throw error
  }
}
