/**
 * The plugin's part of the protocol: reads and checks `CNI_*` and stdin, calls the verb, and prints one answer.
 *
 * @example
 * export const ptp = definePlugin({ name: "ptp", config: parsePtpConfig, add(call, config) { … }, … })
 * if (import.meta.main) runPlugin(ptp)
 */
export * from "./plugin.ts"
export { logLine, runPlugin, writeReply } from "./process.ts"
export {
  defineRestorable,
  type InsideCall,
  type Restorable,
  type RestorablePlugin,
  type Restoring,
} from "./restorable.ts"
export { RESTORE_ARGUMENT, type RestoreAnswer, type RestoredItem, type RestoreRequest } from "./restore.ts"
export { type CallIo, REFERENCE_VERSION, serve } from "./serve.ts"
