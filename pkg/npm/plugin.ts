/**
 * The entry `libcni/plugin` of the npm package, for CNI plugins in TypeScript on Node and Bun. It handles the protocol
 * for a plugin: `CNI_*`, stdin, versions, the single answer on stdout, and error objects.
 *
 * @example
 * const plugin = definePlugin({ name: "my-plugin", config: (network) => network, add, check, del, status, gc })
 * await runPlugin(plugin)
 */
export type { Delegate } from "../invoke/mod.ts"
export {
  type Answered,
  type Call,
  type ConfigCall,
  definePlugin,
  type Kept,
  type Plugin,
  requireForAdd,
  requireOneForAdd,
  type Verb,
} from "../skel/mod.ts"
export {
  type Attachment as ValidAttachment,
  type CniArgReaders,
  type CniArgs,
  CniError,
  Code,
  type IpamConfig,
  isCniError,
  type JsonObject,
  type JsonValue,
  type NetworkConfig,
  type Result,
  readCniArgs,
} from "../types/mod.ts"
export { Failures, Undo } from "../undo/mod.ts"
export { runPlugin } from "./run-plugin.ts"
