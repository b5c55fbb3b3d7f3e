/**
 * nf_tables over netlink, without the program `nft`. A change of the rule set is a list of operations, which is sent as
 * one transaction and printed in `nft`'s syntax. The purpose of the rules is left to the packages that use this one.
 *
 * @example
 * using socket = openNetfilter()
 * commit(socket, [add.table(table), add.set(set), add.elements(set, [{ key: [ip], comment: "why" }])])
 * atomically(socket, () => listRules(socket, chain).filter(isOurs).map((rule) => remove.rule(rule)))
 */
export { type DataType, dataTypes, ifnameValue } from "./data-types.ts"
export {
  type FoundElements,
  findCatchAll,
  findElement,
  findElements,
  getElement,
  isWholeList,
  sampleElements,
} from "./elements.ts"
export { encodeAhead, withEncoded } from "./encode.ts"
export { type Expression, extensionAttributes, type UnknownExpression } from "./expressions.ts"
export { type Field, fields, PayloadBase, prefixOf } from "./fields.ts"
export * from "./key-queues.ts"
export { type Netfilter, openNetfilter } from "./netfilter.ts"
export { type Claim, PlannedQueues, type Standing } from "./planned-queues.ts"
export { printElement, printRule, printTransaction } from "./print.ts"
export * from "./rule-set.ts"
export * from "./rules.ts"
export {
  clearMark,
  counter,
  dnatMap,
  masquerade,
  match,
  matchBits,
  matchExtension,
  matchLabel,
  matchPrefix,
  matchSet,
  NFT_CMP,
  readVerdict,
  setMark,
  verdict,
  verdictMap,
} from "./statements.ts"
export * from "./tables.ts"
export {
  atomically,
  commit,
  commitQuickly,
  dryRun,
  type Generation,
  getGeneration,
  hasNftables,
} from "./transaction.ts"
