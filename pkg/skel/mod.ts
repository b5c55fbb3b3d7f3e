/**
 * The protocol from inside a plugin: reads `CNI_*` and stdin, checks them, calls the verb, prints the answer once.
 *
 * @example
 * export const ptp = definePlugin({ name: "ptp", config: parsePtpConfig, add(call, config) { … }, … })
 * if (import.meta.main) runPlugin(ptp)
 */
export { type Answered, type Call, definePlugin, type Plugin, type Verb } from "./plugin.ts"
export { requireForAdd, requireOneForAdd } from "./preconditions.ts"
export { answer, runPlugin } from "./run.ts"
export { type Prepared, prepare, type Surroundings, serve } from "./serve.ts"
export { logLine } from "./stdio.ts"
