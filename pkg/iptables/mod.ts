/**
 * iptables: rules as values, changed by one `iptables-restore` a call; and what `iptables` has made found and removed
 * without it, as far as it lies in nf_tables. On top of it, the masquerade of containers with upstream's chains.
 *
 * @example
 * const programs = requirePrograms("ip")
 * changeTable(programs, "nat", ({ chains }) => (chains.includes("X") ? [] : [chain.create("X"), rule.append(jump)]))
 * removeEverywhere(socket, "nat", { chains: [chainName("CNI-DN-", owner)], parents: ["CNI-HOSTPORT-DNAT"] }, allOf)
 */
export { type Change, chain, printRestore, removalChanges, rule } from "./change.ts"
export { changeTable } from "./change-table.ts"
export { allOf, type Found, findEverywhere, narrow, removeEverywhere } from "./everywhere.ts"
export { isTableInUse } from "./in-use.ts"
export type { Search } from "./kernel-rules.ts"
export { addIptablesMasquerade, deleteIptablesMasquerade, gcIptablesMasquerade } from "./masquerade.ts"
export { checkIptablesMasquerade } from "./masquerade-check.ts"
export { chainName, containerComment, networkComment } from "./names.ts"
export { findPrograms, type Programs, requirePrograms, type Variant } from "./programs.ts"
export {
  type Content,
  commentOf,
  destinationOf,
  type Family,
  isSameRule,
  printRule,
  type Removal,
  type Rule,
  sourceOf,
  type TableName,
  targetOf,
} from "./rule.ts"
export { readTable, restoreTable } from "./run.ts"
export { chooseVariant } from "./variant.ts"
