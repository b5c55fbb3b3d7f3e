import { isErrno } from "../libc/mod.ts"
import { concat, type Message, netfilterHeader, readAttributes } from "../netlink/mod.ts"
import {
  commentedRuleAttributes,
  elementAttributes,
  elementListAttributes,
  rawElementListAttributes,
  ruleAttributes,
} from "./attributes.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { listTables } from "./packet-filter.ts"
import type { Table } from "./rule-set.ts"
import { listSetNames } from "./sets.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETRULE, NFT_MSG_GETSETELEM } from "./uapi.ts"
import { readComment } from "./userdata.ts"

/** A rule, or an element of a set, with a comment. */
export interface Commented {
  readonly table: Table
  /** Of the chain or the set. */
  readonly name: string
  readonly comment: string
}

/**
 * The rules and elements of all tables whose comments are wanted, whoever made them: reads the whole rule set, so it is
 * nothing for a plugin. Throws `NetlinkError`.
 */
export function listCommented(
  socket: Pick<Netfilter, "dump">,
  isWanted: (comment: string) => boolean,
): { rules: Commented[]; elements: Commented[] } {
  const rules: Commented[] = []
  const elements: Commented[] = []
  for (const table of listTables(socket)) {
    rules.push(...commentedRules(socket, table, isWanted))
    for (const name of listSetNames(socket, table)) elements.push(...commentedElements(socket, table, name, isWanted))
  }
  return { rules, elements }
}

function commentedRules(socket: Pick<Netfilter, "dump">, table: Table, isWanted: (comment: string) => boolean) {
  const payload = concat([netfilterHeader(familyNumber[table.family]), ruleAttributes.encode({ table: table.name })])
  const request = { type: NFT_MSG_GETRULE, what: `list table ${table.family} ${table.name}`, payload }
  return ifThere(socket, request, ({ payload: answer }): Commented | undefined => {
    const found = commentedRuleAttributes.decode(answer.subarray(NFGENMSG_SIZE))
    const comment = readComment(found.userdata)
    if (found.table !== table.name || comment === undefined || !isWanted(comment)) return undefined
    return { table, name: found.chain ?? "", comment }
  })
}

function commentedElements(
  socket: Pick<Netfilter, "dump">,
  table: Table,
  name: string,
  isWanted: (comment: string) => boolean,
): Commented[] {
  const attributes = elementListAttributes.encode({ table: table.name, set: name })
  const payload = concat([netfilterHeader(familyNumber[table.family]), attributes])
  const request = { type: NFT_MSG_GETSETELEM, what: `list set ${table.family} ${table.name} ${name}`, payload }
  const lists = ifThere(socket, request, ({ payload: answer }) => {
    const list = rawElementListAttributes.decode(answer.subarray(NFGENMSG_SIZE)).elements
    return readAttributes(list ?? new Uint8Array()).flatMap((element): Commented[] => {
      const comment = readComment(elementAttributes.decode(element.payload).userdata)
      return comment !== undefined && isWanted(comment) ? [{ table, name, comment }] : []
    })
  })
  return lists.flat()
}

/** What is asked for may have gone since it was listed. */
function ifThere<T>(
  socket: Pick<Netfilter, "dump">,
  request: Parameters<Netfilter["dump"]>[0],
  pick: (answer: Message) => T | undefined,
): T[] {
  try {
    return socket.dump(request, pick)
  } catch (error) {
    if (isErrno(error, "ENOENT")) return []
    throw error
  }
}
