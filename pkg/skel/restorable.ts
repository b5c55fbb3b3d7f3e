import type { Owner, Result } from "../types/mod.ts"
import type { Call, Plugin } from "./plugin.ts"

/** A plugin that keeps something on the host that other programs may remove while its containers live. */
export interface RestorablePlugin<C> extends Plugin<C> {
  /**
   * Makes again what the host has lost of what ADD made for these attachments, such as rules that another program has
   * flushed. All of one mechanism are made in one transaction. What is there stays as it is, and what another owner has
   * by now stays that one's.
   */
  restore?(restoring: Restoring<C>): void
  /**
   * Makes again what is missing of what ADD made in one container, and returns in words what that was; undefined where
   * nothing is missing. In a dry run it only looks. Throws `CniError`.
   */
  restoreInside?(call: InsideCall, config: C, isDry: boolean): string | undefined
}

/** A call of `restoreInside`: as CHECK has it; what `answer` is given is not written. */
export type InsideCall = Omit<Call, "delegate">

/** The attachments for which something may be made again. */
export interface Restoring<C> {
  /** In the order of their ADDs. */
  readonly attachments: readonly Restorable<C>[]
  /** Only tell what would be made. */
  readonly isDry: boolean
  /** Flush the tracked flows that began without rules also where all rules are there by now. */
  readonly flows: boolean
  /** Only move rules from nf_tables to iptables: what is missing stays as it is. */
  readonly toIptables: boolean
  /** Tells of something that containers share: 'bridge "cni0"'. */
  tell(network: string, what: string): void
  log(line: string): void
}

/** An attachment whose container lives, as its runtime's cache has it. */
export interface Restorable<C> {
  readonly owner: Owner
  /** Path of the container's namespace. */
  readonly netns: string
  /** The chain's answer to ADD. */
  readonly result: Result
  readonly config: C
  /** Tells what was made again, or would be: "masquerade". */
  tell(what: string): void
  /** Tells what cannot be made again. The others go on. */
  refuse(error: unknown): void
}

/** A plugin as a value; the type of its configuration is inferred. */
export function defineRestorable<C>(plugin: RestorablePlugin<C>): RestorablePlugin<C> {
  return plugin
}
