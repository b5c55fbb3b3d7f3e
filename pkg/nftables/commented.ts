import { listElementComments } from "./elements.ts"
import type { Netfilter } from "./netfilter.ts"
import type { Table } from "./rule-set.ts"
import { listComments } from "./rules.ts"
import { listSetNames, listTables } from "./tables.ts"

/** A rule, or an element of a set, with its comment. */
export interface Commented {
  readonly table: Table
  /** The name of the chain or the set. */
  readonly name: string
  readonly comment: string
}

/**
 * Returns the rules and elements of all tables, of any program, with a comment that `isSought`. Reads the whole rule
 * set, or the wanted tables, which takes too long for a plugin. Throws `NetlinkError`.
 */
export function listCommented(
  socket: Pick<Netfilter, "dump">,
  isSought: (comment: string) => boolean,
  isWanted: (table: Table) => boolean = () => true,
): { rules: Commented[]; elements: Commented[] } {
  const tables = listTables(socket).filter(isWanted)
  const rules = tables.flatMap((table) =>
    listComments(socket, table).flatMap(({ chain, comment }) =>
      comment !== undefined && isSought(comment) ? [{ table, name: chain, comment }] : [],
    ),
  )
  const elements = tables.flatMap((table) =>
    listSetNames(socket, table).flatMap((name) =>
      listElementComments(socket, { table, name })
        .filter(isSought)
        .map((comment) => ({ table, name, comment })),
    ),
  )
  return { rules, elements }
}
