/**
 * Packet filter rules that have an owner: one interface for all backends of all features, and the choice between them.
 * A feature passes its backends to `OwnedRules`.
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
