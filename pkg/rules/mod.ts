/**
 * Packet filter rules with an owner. All backends of all features have one interface, and `OwnedRules` chooses between
 * them.
 *
 * @example
 * const rules = new OwnedRules(feature, filter, { nftables: filter && new InNftables(filter), iptables: new InIptables(filter) })
 * rules.add({ owner, addresses }, config.ipMasqBackend, undo)
 * rules.remove(owner, hints)
 */
export type { BackendName, Filter, ForeignRules, Restored, RuleBackend } from "./backend.ts"
export * from "./backends.ts"
export { type Feature, OwnedRules, onFlows } from "./owned-rules.ts"
export type { RestorableRules, RestoreOptions } from "./restore.ts"
