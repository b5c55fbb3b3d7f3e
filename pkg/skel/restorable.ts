import type { JsonObject, Owner, Result } from "../types/mod.ts"
import type { Call, Plugin } from "./plugin.ts"

/** A plugin that keeps something on the host that other programs may remove while its containers live. */
export interface RestorablePlugin<C> extends Plugin<C> {
  /**
   * Restores the lost host objects of these attachments, such as flushed rules. All objects of one mechanism are
   * restored in one transaction. Existing objects stay, and so do objects that belong to another owner now.
   */
  restore?(restoring: Restoring<C>): void
  /**
   * Returns a configuration with an attachment's runtime values, as `config` would read them. Without this function
   * `config` reads the whole configuration for each attachment with runtime values. Throws `CniError`.
   */
  withRuntimeConfig?(config: C, runtimeConfig: JsonObject): C
  /**
   * Restores the missing parts in one container, and returns their description; undefined if nothing is missing. A dry
   * run changes nothing. Throws `CniError`.
   */
  restoreInside?(call: InsideCall, config: C, isDry: boolean): string | undefined
}

/** A call of `restoreInside`: the same as CHECK's. The value given to `answer` is not written. */
export type InsideCall = Omit<Call, "delegate">

/** The attachments whose objects may be restored. */
export interface Restoring<C> {
  /** In the order of their ADDs. */
  readonly attachments: readonly Restorable<C>[]
  /** Only report what is missing. */
  readonly isDry: boolean
  /** Flushes the tracked flows that began without rules, even if all rules exist now. */
  readonly flows: boolean
  /** Only move rules from nf_tables to iptables: missing objects are not restored. */
  readonly toIptables: boolean
  /** Reports an object that containers share: 'bridge "cni0"'. */
  tell(network: string, what: string): void
  log(line: string): void
}

/** An attachment of a running container, from the runtime's cache. */
export interface Restorable<C> {
  readonly owner: Owner
  /** Path of the container's namespace. */
  readonly netns: string
  /** The chain's answer to ADD. */
  readonly result: Result
  readonly config: C
  /** Reports a restored or missing part: "masquerade". */
  tell(what: string): void
  /** Reports a part that cannot be restored. The others are still restored. */
  refuse(error: unknown): void
}

/** A plugin as a value; the type of its configuration is inferred. */
export function defineRestorable<C>(plugin: RestorablePlugin<C>): RestorablePlugin<C> {
  return plugin
}
