import type { NetlinkSocket } from "../netlink/mod.ts"
import type { TableFamily } from "../nftables/mod.ts"
import type { CniError, Owner } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"

/** The packet filters that a configuration can ask for. */
export type BackendName = "nftables" | "iptables"

/** nf_tables of the thread's namespace: what backends use of `PacketFilter`. */
export interface Filter<Socket = NetlinkSocket> {
  readonly socket: Socket
  hasTable(name: string | RegExp, family?: TableFamily): boolean
  forgetTables(): void
}

/**
 * One packet filter's way to keep the rules of a feature, such as published ports in nf_tables. Its errors may be the kernel's:
 * `OwnedRules`, which chooses the backend, words them.
 */
export interface RuleBackend<Spec, Hints = unknown, Made = void> {
  /** Whether the node has what `add` needs, for this spec or in general. Changes nothing. */
  isUsable(spec?: Spec): boolean
  /**
   * Adds the rules; adding them again changes nothing. Each change goes to `undo` with its reverse. A backend in nf_tables calls
   * `onMissingRules` before it adds rules that all attachments share.
   */
  add(spec: Spec, undo: Undo, onMissingRules: () => void): Made
  /** Throws `CniError` with what was expected and what was found, unless all rules are there. */
  check(spec: Spec): void
  /** Whether there may be rules to remove. When false, `remove` and `gc` are not called. */
  mayHold(): boolean
  /** Removes an attachment's rules, found by their owner. `hints` tell where to look first, and may be wrong. */
  remove(owner: Owner, hints: Hints): void
  /** Removes the rules of all attachments to a network but the valid ones. */
  gc(network: string, valid: readonly Owner[]): void
  /**
   * Makes again in one transaction what is missing of the rules of many attachments, or in a dry run reads only; returns for each what
   * became of it. What is there stays, and what another owner has by now stays that one's. Without it each is checked and added.
   */
  restore?(specs: readonly Spec[], isDry: boolean): Restored[]
}

/** What became of the rules of one attachment: all were there, some were missing, or an error says why they cannot be made. */
export type Restored = "whole" | "missing" | CniError

/** Rules that the Go suite has added for the same feature: checked and removed, never added. */
export type ForeignRules<Spec, Hints = unknown> = Pick<RuleBackend<Spec, Hints>, "mayHold" | "remove"> &
  Partial<Pick<RuleBackend<Spec, Hints>, "check" | "gc">>

/** Where a feature's rules may be. */
export interface Backends<Spec, Hints, Made> {
  /** Undefined where the kernel has no nf_tables. */
  readonly nftables: RuleBackend<Spec, Hints, Made> | undefined
  readonly iptables?: RuleBackend<Spec, Hints, Made>
  readonly otherSuite?: ForeignRules<Spec, Hints> | undefined
}
