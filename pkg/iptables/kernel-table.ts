import { encodeUtf8 } from "../engine/mod.ts"
import { concat, type NetlinkSocket, u32 } from "../netlink/mod.ts"
import {
  atomically,
  type Chain,
  counter,
  create,
  findBase,
  flush,
  insert,
  listChains,
  listRules,
  listSetNames,
  listTables,
  matchExtension,
  add as nft,
  type Operation,
  remove,
  type Statement,
  type Table,
  tableFamily,
  verdict,
} from "../nftables/mod.ts"
import type { Family } from "../types/mod.ts"
import { type KernelRule, kernelOperations, wordsOf } from "./kernel-rules.ts"
import { COMMENT_LENGTH, type Content, isSameRule, printRule, type Removal, type Rule, type TableName } from "./rule.ts"
import type { Change } from "./save-restore.ts"

/** The comment of a table that this package has created. Such a table is deleted with its last rule. */
const MADE_HERE = "CNI: a table of iptables"

/** The built-in chains that this package can create, with the names, types and priorities that `iptables-nft` uses. */
const BASES: Readonly<Record<string, Chain["base"]>> = {
  "filter FORWARD": { type: "filter", hook: "forward", priority: 0, policy: "accept" },
}

/** Returns a table of `iptables-nft`, as `iptables-save` prints it. Returns empty lists if the table does not exist. */
export function readKernelTable(socket: NetlinkSocket, family: Family, name: TableName): Content<KernelRule> {
  const table = { family: tableFamily[family], name }
  const rules = listRules(socket, { table })
  return {
    chains: listChains(socket, table).map((chain) => chain.name),
    rules: rules.map((rule) => ({ chain: rule.chain.name, words: wordsOf(family, rule), handle: rule.handle })),
  }
}

/**
 * Makes the changes that `plan` selects in a table of `iptables-nft`, without a program. The changes are one
 * transaction, on exactly the table that `plan` has received. A missing table or built-in chain is created like by
 * `iptables-nft`. Rules may contain only the matches "comment" and "mark". Throws `NetlinkError`.
 */
export function changeKernelTable(
  socket: NetlinkSocket,
  family: Family,
  name: TableName,
  plan: (found: Content) => readonly Change[],
): void {
  const table: Table = { family: tableFamily[family], name }
  atomically(socket, () => {
    const found = readKernelTable(socket, family, name)
    const changes = plan(found)
    if (changes.length === 0) return []
    const isThere = listTables(socket).some((one) => one.family === table.family && one.name === name)
    const used = new Set(changes.flatMap((change) => ("rule" in change ? change.rule.chain : [])))
    const missing = [...used].filter((chain) => BASES[`${name} ${chain}`] && !found.chains.includes(chain))
    return [
      ...(isThere ? [] : [create.table({ ...table, comment: MADE_HERE })]),
      ...missing.map((chain) => create.chain({ table, name: chain, base: BASES[`${name} ${chain}`] })),
      ...changes.flatMap((change) => changeOperations(table, family, found, change)),
    ]
  })
}

function changeOperations(table: Table, family: Family, found: Content<KernelRule>, change: Change): Operation[] {
  if ("chain" in change) {
    const chain = { table, name: change.chain }
    if (change.verb === "create") return [create.chain(chain)]
    if (change.verb === "reset") return [nft.chain(chain), flush.chain(chain)]
    return kernelOperations(family, table.name as TableName, { rules: [], chains: [change.chain] })
  }
  const { rule } = change
  if (change.verb === "remove") {
    const rules = found.rules.filter((one) => isSameRule(one, rule)).slice(0, 1)
    return kernelOperations(family, table.name as TableName, { rules, chains: [] })
  }
  const written = { chain: { table, name: rule.chain }, statements: statementsOf(rule) }
  return [change.verb === "append" ? nft.rule(written) : insert.rule(written)]
}

/**
 * Removes the rules and chains that `plan` selects from a table of `iptables-nft`, in one transaction and without a
 * program. A table that this package has created is deleted when only built-in chains with policy accept are left.
 * Throws `NetlinkError`.
 */
export function removeFromKernelTable(
  socket: NetlinkSocket,
  family: Family,
  name: TableName,
  plan: (found: Content<KernelRule>) => Removal<KernelRule>,
): void {
  atomically(socket, () => {
    const found = readKernelTable(socket, family, name)
    const removal = plan(found)
    if (removal.rules.length === 0 && removal.chains.length === 0) return []
    const table = listTables(socket).find((one) => one.family === tableFamily[family] && one.name === name)
    const isLast = table?.comment === MADE_HERE && isEmptyAfter(socket, table, found, removal)
    return isLast ? [remove.table(table)] : kernelOperations(family, name, removal)
  })
}

function isEmptyAfter(
  socket: NetlinkSocket,
  table: Table,
  { chains, rules }: Content<KernelRule>,
  removal: Removal<KernelRule>,
): boolean {
  const left = chains.filter((chain) => !removal.chains.includes(chain))
  const gone = new Set(removal.rules.map(({ handle }) => handle))
  const isGone = ({ chain, handle }: KernelRule) => gone.has(handle) || removal.chains.includes(chain)
  return (
    rules.every(isGone) &&
    left.every((chain) => findBase(socket, { table, name: chain })?.policy === "accept") &&
    listSetNames(socket, table).length === 0
  )
}

/** Returns `iptables-nft`'s statements for a rule. Throws `RangeError` for words that it cannot encode. */
export function statementsOf(rule: Rule): Statement[] {
  const statements: Statement[] = []
  let target: string | undefined
  for (let at = 0; at < rule.words.length; ) {
    const [option, value, more, text = ""] = rule.words.slice(at)
    if (option === "-j") {
      target = value
      at += 2
    } else if (option === "-m" && value === "comment" && more === "--comment") {
      const info = new Uint8Array(COMMENT_LENGTH + 1) // struct xt_comment_info, <linux/netfilter/xt_comment.h>
      info.set(encodeUtf8(text).subarray(0, COMMENT_LENGTH))
      statements.push(matchExtension("comment", 0, info))
      at += 4
    } else if (option === "-m" && value === "mark" && more === "--mark") {
      statements.push(matchExtension("mark", 1, markInfo(text)))
      at += 4
    } else throw new RangeError(`Cannot write "${printRule(rule)}" into nf_tables`)
  }
  if (target === undefined) throw new RangeError(`"${printRule(rule)}" has no target`)
  return [...statements, counter, verdict(target === "ACCEPT" ? "accept" : { jump: target })]
}

/** Returns struct xt_mark_mtinfo1, <linux/netfilter/xt_mark.h>: value and mask of "0x1000/0x1000", inversion 0. */
function markInfo(text: string): Uint8Array {
  const [value, mask] = text.split("/").map(Number)
  return concat([u32.encode(value ?? 0), u32.encode(mask ?? 0xffffffff), new Uint8Array(8)])
}
