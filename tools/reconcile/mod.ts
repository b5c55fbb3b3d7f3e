/** `cni reconcile`: restores lost host objects of attachments, once or after each loss. */

export { reconcile } from "./command.ts"
export { LinkWatch } from "./link-watch.ts"
export type { PluginRuns } from "./plugins.ts"
export { reconcileAll } from "./reconcile.ts"
export { findListenerRecord, isListening, type ListenerRecord, OUTAGE_BUCKETS } from "./record.ts"
