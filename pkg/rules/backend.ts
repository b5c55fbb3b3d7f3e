import type { NetlinkSocket } from "../netlink/mod.ts"
import type { TableFamily } from "../nftables/mod.ts"
import type { CniError, Owner } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"

/** The packet filters that a configuration can select. */
export type BackendName = "nftables" | "iptables"

/** Access to nf_tables in the thread's namespace: the part of `PacketFilter` that backends use. */
export interface Filter<Socket = NetlinkSocket> {
  readonly socket: Socket
  hasTable(name: string | RegExp, family?: TableFamily): boolean
  forgetTables(): void
}

/**
 * The implementation of a feature's rules, such as published ports, in one packet filter. It may throw the kernel's
 * errors. `OwnedRules`, which chooses the backend, adds context to them.
 */
export interface RuleBackend<Spec, Hints = unknown, Made = void> {
  /** Reports whether the node supports `add`, for this spec or in general. Changes nothing. */
  isUsable(spec?: Spec): boolean
  /**
   * Adds the rules. A repeated call changes nothing. Registers the reverse of each change with `undo`. A backend in
   * nf_tables calls `onMissingRules` before it adds rules that all attachments share.
   */
  add(spec: Spec, undo: Undo, onMissingRules: () => void): Made
  /** Throws `CniError` with the expected and the found state unless all rules exist. */
  check(spec: Spec): void
  /** Reports whether rules may exist. If not, `remove` and `gc` are not called. */
  mayHold(): boolean
  /** Removes an attachment's rules, found by their owner. `hints` tell where to search first, and may be wrong. */
  remove(owner: Owner, hints: Hints): void
  /** Removes the rules of all attachments to a network except the valid ones. */
  gc(network: string, valid: readonly Owner[]): void
  /**
   * Restores missing rules of many attachments in one transaction, or only reads in a dry run. Returns the outcome for
   * each attachment. Existing rules stay, and so do objects that have another owner now. Without this function, `check`
   * and `add` are called for each attachment.
   */
  restore?(specs: readonly Spec[], isDry: boolean): Restored[]
}

/** The outcome for an attachment: all rules existed, some were missing, or the error that prevents them. */
export type Restored = "whole" | "missing" | CniError

/** Rules of the Go suite for the same feature. They are checked and removed, never added. */
export type ForeignRules<Spec, Hints = unknown> = Pick<RuleBackend<Spec, Hints>, "mayHold" | "remove"> &
  Partial<Pick<RuleBackend<Spec, Hints>, "check" | "gc">>

/** The packet filters in which a feature's rules may be. */
export interface Backends<Spec, Hints, Made> {
  /** Undefined on a kernel without nf_tables. */
  readonly nftables: RuleBackend<Spec, Hints, Made> | undefined
  readonly iptables?: RuleBackend<Spec, Hints, Made>
  readonly otherSuite?: ForeignRules<Spec, Hints> | undefined
}
