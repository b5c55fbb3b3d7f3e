import type { TraceContext } from "../invoke/mod.ts"
import type { JsonObject } from "../types/mod.ts"
import type { Exec } from "./exec.ts"
import type { CapabilityArgs } from "./typed.ts"

/** A network: the checked content of its file. Its version is chosen, and the plugins of its directory are appended. */
export interface Network {
  readonly name: string
  /** The version in the plugins' configurations. "" if the file has none; plugins read that as 0.1.0. */
  readonly cniVersion: string
  readonly disableCheck: boolean
  readonly disableGC: boolean
  readonly plugins: readonly NetworkPlugin[]
  /** The content of the file. For the file of a single plugin, a list with that plugin. */
  readonly bytes: Uint8Array
  /** Messages for the administrator about problems other than errors, such as another broken file in the directory. */
  readonly warnings: readonly string[]
}

/** One plugin of a network. Its object is as written, with all keys and all digits of its numbers. */
export interface NetworkPlugin {
  readonly type: string
  readonly raw: JsonObject
  /** Whether the configuration is in its own file beside the network's file. */
  readonly fromDirectory?: true
}

/** One interface of a container in a network: the source of the `CNI_*` variables and of `runtimeConfig`. */
export interface Attachment {
  readonly containerId: string
  readonly ifName: string
  /** The path of the network namespace. It may be "" for DEL. */
  readonly netns: string
  /** The pairs of `CNI_ARGS`, in order. */
  readonly args: readonly (readonly [string, string])[]
  /** Values for capabilities that plugins declare, such as `portMappings`. */
  readonly capabilityArgs: CapabilityArgs
}

/** The names that identify an attachment within its network. */
export type AttachmentId = Pick<Attachment, "containerId" | "ifName">

/** The directories of plugins and results, and the options for running plugins. */
export interface Runtime {
  /** The directories of plugins: the elements of `CNI_PATH`. */
  readonly path: readonly string[]
  /** The directory of the cache, in production `/var/lib/cni`. Its subdirectory `results` has the results. */
  readonly cacheDir: string
  /** The environment that plugins inherit, without `CNI_*` variables. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The caller's trace span, for plugins that trace. */
  readonly trace?: TraceContext
  /** Receives the plugins' stderr as it is written. */
  readonly stderr: (chunk: Uint8Array) => void
  /** The timeout of one plugin in milliseconds; none if absent. */
  readonly timeoutMs?: number
  /** The timeout of the wait for other operations on the container in milliseconds; two minutes if absent. */
  readonly lockTimeoutMs?: number
  /** When it aborts, the plugin and its children are killed. The operation throws code 11, with the reason as cause. */
  readonly signal?: AbortSignal
  /** Functions that find and run plugins, instead of processes of this machine. */
  readonly exec?: Exec
}
