import type { TraceContext } from "../invoke/mod.ts"
import type { JsonObject } from "../types/mod.ts"
import type { Exec } from "./exec.ts"
import type { CapabilityArgs } from "./typed.ts"

/** A network: what its file says, checked, with its version chosen and the plugins of its directory appended. */
export interface Network {
  readonly name: string
  /** The version in the plugins' configurations; "" when the file has no version, which plugins read as 0.1.0. */
  readonly cniVersion: string
  readonly disableCheck: boolean
  readonly disableGC: boolean
  readonly plugins: readonly NetworkPlugin[]
  /** The file byte for byte. Of a single plugin's file, the list it was turned into. */
  readonly bytes: Uint8Array
  /** What deserves a word to the admin but stops nothing, such as a broken file next to this one. */
  readonly warnings: readonly string[]
}

/** One plugin of a network: the object as written, all keys and all digits of its numbers kept. */
export interface NetworkPlugin {
  readonly type: string
  readonly raw: JsonObject
  /** It is not in the network's file but beside it, in a file of its own. */
  readonly fromDirectory?: true
}

/** One container's interface in a network: what the `CNI_*` variables and `runtimeConfig` are made from. */
export interface Attachment {
  readonly containerId: string
  readonly ifName: string
  /** Path of the network namespace; may be "" for DEL. */
  readonly netns: string
  /** `CNI_ARGS`, in order. */
  readonly args: readonly (readonly [string, string])[]
  /** Values for the capabilities that plugins declare, such as `portMappings`. */
  readonly capabilityArgs: CapabilityArgs
}

/** What tells attachments of one network apart. */
export type AttachmentId = Pick<Attachment, "containerId" | "ifName">

/** Where plugins are, where results are kept, and how plugins run. */
export interface Runtime {
  /** Directories to find plugins in: `CNI_PATH`, split. */
  readonly path: readonly string[]
  /** `/var/lib/cni` in production; results are in `results` below it. */
  readonly cacheDir: string
  /** The environment that plugins inherit; the `CNI_*` variables are set over it. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The span that the caller is in, for plugins that trace. */
  readonly trace?: TraceContext
  /** Gets what plugins write to stderr, as they write it. */
  readonly stderr: (chunk: Uint8Array) => void
  /** How long one plugin may run, in milliseconds; for ever when absent. */
  readonly timeoutMs?: number
  /** How long to wait for other operations on the container, in milliseconds; two minutes when absent. */
  readonly lockTimeoutMs?: number
  /** Kills the plugin that is running, and all it started; the operation ends with code 11, and the signal's reason as cause. */
  readonly signal?: AbortSignal
  /** Another way to find and run plugins than as processes of this machine. */
  readonly exec?: Exec
}
