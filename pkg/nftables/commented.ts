import { listElementComments } from "./elements.ts"
import type { Netfilter } from "./netfilter.ts"
import type { Table } from "./rule-set.ts"
import { listComments } from "./rules.ts"
import { listSetNames, listTables } from "./tables.ts"

/** A rule, or an element of a set, with a comment. */
export interface Commented {
  readonly table: Table
  /** Of the chain or the set. */
  readonly name: string
  readonly comment: string
}

/**
 * The rules and elements of all tables whose comments are wanted, whatever program has made them: reads the whole rule
 * set, so it is nothing for a plugin. Throws `NetlinkError`.
 */
export function listCommented(
  socket: Pick<Netfilter, "dump">,
  isWanted: (comment: string) => boolean,
): { rules: Commented[]; elements: Commented[] } {
  const tables = listTables(socket)
  const rules = tables.flatMap((table) =>
    listComments(socket, table).flatMap(({ chain, comment }) =>
      comment !== undefined && isWanted(comment) ? [{ table, name: chain, comment }] : [],
    ),
  )
  const elements = tables.flatMap((table) =>
    listSetNames(socket, table).flatMap((name) =>
      listElementComments(socket, { table, name })
        .filter(isWanted)
        .map((comment) => ({ table, name, comment })),
    ),
  )
  return { rules, elements }
}
