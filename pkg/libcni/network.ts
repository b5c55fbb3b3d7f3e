import type { TraceContext } from "../invoke/mod.ts"
import type { JsonObject } from "../types/mod.ts"
import type { Exec } from "./exec.ts"
import type { CapabilityArgs } from "./typed.ts"

/** A network: the checked content of its file, with its version chosen and the plugins of its directory appended. */
export interface Network {
  readonly name: string
  /** The version in the plugins' configurations; "" if the file has none, which plugins read as 0.1.0. */
  readonly cniVersion: string
  readonly disableCheck: boolean
  readonly disableGC: boolean
  readonly plugins: readonly NetworkPlugin[]
  /** The file byte for byte. For a single plugin's file, the list made of it. */
  readonly bytes: Uint8Array
  /** Notes for the administrator that stop nothing, such as a broken file next to this one. */
  readonly warnings: readonly string[]
}

/** One plugin of a network: the object as written, all keys and all digits of its numbers kept. */
export interface NetworkPlugin {
  readonly type: string
  readonly raw: JsonObject
  /** The configuration is in its own file beside the network's file. */
  readonly fromDirectory?: true
}

/** One container's interface in a network: the source of the `CNI_*` variables and `runtimeConfig`. */
export interface Attachment {
  readonly containerId: string
  readonly ifName: string
  /** Path of the network namespace; may be "" for DEL. */
  readonly netns: string
  /** The pairs of `CNI_ARGS`, in order. */
  readonly args: readonly (readonly [string, string])[]
  /** Values for the capabilities that plugins declare, such as `portMappings`. */
  readonly capabilityArgs: CapabilityArgs
}

/** Identifies an attachment within its network. */
export type AttachmentId = Pick<Attachment, "containerId" | "ifName">

/** The directories of plugins and results, and the way to run plugins. */
export interface Runtime {
  /** The directories of plugins: `CNI_PATH`, split. */
  readonly path: readonly string[]
  /** `/var/lib/cni` in production; results are in `results` below it. */
  readonly cacheDir: string
  /** The environment that plugins inherit, apart from the `CNI_*` variables. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The caller's span, for plugins that trace. */
  readonly trace?: TraceContext
  /** Receives the plugins' stderr as it is written. */
  readonly stderr: (chunk: Uint8Array) => void
  /** The time limit of one plugin in milliseconds; none if absent. */
  readonly timeoutMs?: number
  /** The time limit of the wait for other operations on the container in milliseconds; two minutes if absent. */
  readonly lockTimeoutMs?: number
  /**
   * Aborting it kills the running plugin and its children; the operation ends with code 11 and the signal's reason as
   * cause.
   */
  readonly signal?: AbortSignal
  /** Finds and runs plugins in another way than as processes of this machine. */
  readonly exec?: Exec
}
