/**
 * iptables: rules are values, and one run of `iptables-restore` makes all changes of a call. Rules of `iptables-nft`
 * are found and removed without a program.
 *
 * @example
 * const programs = requirePrograms(AF_INET)
 * changeTable(programs, "nat", ({ chains }) => (chains.includes("X") ? [] : [chain.create("X"), rule.append(jump)]))
 * removeEverywhere({ socket, table: "nat" }, { chains: [chainName("CNI-DN-", owner)], parents: ["CNI-HOSTPORT-DNAT"] }, planRemove)
 */
export { type Found, findEverywhere, findLegacyTable, isTableInUse, narrow, removeEverywhere } from "./everywhere.ts"
export { findInKernel, type KernelRule, listKernelRules, type Search } from "./kernel-rules.ts"
export { changeKernelTable, removeFromKernelTable } from "./kernel-table.ts"
export * from "./programs.ts"
export * from "./rule.ts"
export { changeTable, readTable, restoreTable, run } from "./run.ts"
export { applied, type Change, chain, parseSave, printRestore, removalChanges, rule } from "./save-restore.ts"
