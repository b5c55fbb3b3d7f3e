import type { JsonObject, Owner, Result } from "../types/mod.ts"
import type { Call, Plugin } from "./plugin.ts"

/** A plugin with objects on the host that other programs may remove while the plugin's containers run. */
export interface RestorablePlugin<C> extends Plugin<C> {
  /**
   * Restores lost host objects of the attachments, such as flushed rules, in one transaction for each mechanism.
   * Existing objects stay, even if they now have another owner.
   */
  restore?(restoring: Restoring<C>): void
  /**
   * Returns the configuration with the runtime values of one attachment, as `config` would read them. Without this
   * function, `config` reads the whole configuration for each attachment with runtime values. Throws `CniError`.
   */
  withRuntimeConfig?(config: C, runtimeConfig: JsonObject): C
  /** Restores objects missing in a container. Returns their description, undefined if none. Throws `CniError`. */
  restoreInside?(call: InsideCall, config: C, isDry: boolean): string | undefined
}

/** A call of `restoreInside`, which is like a call of CHECK. Its `answer` writes nothing. */
export type InsideCall = Omit<Call, "delegate">

/** The attachments whose objects may be restored. */
export interface Restoring<C> {
  /** The attachments, in the order of their ADDs. */
  readonly attachments: readonly Restorable<C>[]
  /** Whether to only report missing objects. */
  readonly isDry: boolean
  /** Whether to flush conntrack flows that began without rules, even if all rules exist now. */
  readonly flows: boolean
  /** Whether to only move rules from nf_tables to iptables. Missing objects are not restored. */
  readonly toIptables: boolean
  /** Reports a restored object that containers share: 'bridge "cni0"'. */
  tell(network: string, what: string): void
  log(line: string): void
}

/** An attachment of a running container, from the runtime's cache. */
export interface Restorable<C> {
  readonly owner: Owner
  /** The path of the container's namespace. */
  readonly netns: string
  /** The chain's result of ADD. */
  readonly result: Result
  readonly config: C
  /** Reports a restored or missing part: "masquerade". */
  tell(what: string): void
  /** Reports a part that cannot be restored. The others are still restored. */
  refuse(error: unknown): void
}

/** Returns the plugin. Infers the type of its configuration. */
export function defineRestorable<C>(plugin: RestorablePlugin<C>): RestorablePlugin<C> {
  return plugin
}
