/**
 * nf_tables over netlink, without the program `nft`: a change of the rule set is a list of operations, sent as one
 * transaction, and printed as `nft` would be told it. On top of it, the masquerade of containers.
 *
 * @example
 * using socket = openNetfilter()
 * addMasquerade(socket, { network: "net", containerId: "c1", ifName: "eth0" }, [{ ip, prefix: 16 }])
 * commit(socket, [add.table(table), add.set(set), add.elements(set, [{ key: [ip], comment: "why" }])])
 */

export type { Owner } from "../types/mod.ts"
export { hasChain, listChains } from "./chains.ts"
export { type Commented, listCommented } from "./commented.ts"
export { type DataType, dataTypes, ifnameValue } from "./data-types.ts"
export type { Expression, UnknownExpression } from "./expressions.ts"
export { type Field, fields, prefixOf } from "./fields.ts"
export {
  type Group,
  keyIn,
  type Line,
  LineChanges,
  Lines,
  membersOf,
  removeEmptied,
  type SharedSet,
  sharedSet,
} from "./lines.ts"
export { getElement, hasRules, type Sample, sampleElements } from "./lookup.ts"
export { addMasquerade, deleteMasquerade, gcMasquerade } from "./masquerade.ts"
export { checkMasquerade } from "./masquerade-check.ts"
export { MASQUERADE_TABLE, type MasqueradeAddress } from "./masquerade-layout.ts"
export { canMasquerade } from "./masquerade-support.ts"
export { hasNftables, type Netfilter, openNetfilter } from "./netfilter-socket.ts"
export { listTables, PacketFilter } from "./packet-filter.ts"
export { printElement, printOperation, printRule, printTransaction } from "./print.ts"
export { type FoundElements, type FoundRule, findElements, listRules } from "./read.ts"
export * from "./rule-set.ts"
export { addSpoofCheck, checkSpoofCheck, deleteSpoofCheck, gcSpoofCheck, requireSpoofCheck } from "./spoof-check.ts"
export type { GuardedPort } from "./spoof-check-layout.ts"
export { deleteUpstreamSpoofCheck } from "./spoof-check-upstream.ts"
export {
  counter,
  dnatMap,
  masquerade,
  match,
  matchBits,
  matchPrefix,
  matchSet,
  type Statement,
  verdict,
  verdictMap,
} from "./statements.ts"
export { atomically, commit, type Generation, getGeneration } from "./transaction.ts"
export {
  checkUpstreamMasquerade,
  deleteUpstreamMasquerade,
  gcUpstreamMasquerade,
  UPSTREAM_MASQUERADE_TABLE,
} from "./upstream-masquerade.ts"
