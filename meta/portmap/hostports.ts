import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { type Feature, OwnedRules, onFlows } from "../../pkg/rules/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { flushEntriesOf, flushOlderEntries, flushUnmapped } from "./flush-conntrack.ts"
import { IptablesHostports } from "./iptables/hostports.ts"
import { type DnatMapping, dnatMappings, type HostportHints, type MappedAddress, type PortmapSpec } from "./mapping.ts"
import { NftablesHostports, UpstreamHostports } from "./nftables/hostports.ts"
import { localnetStays } from "./route-localnet.ts"

const feature: Feature<PortmapSpec> = {
  rules: "port mappings",
  does: () => "map ports",
  needs: "the kernel needs nf_tables with NAT, the expression fib and conntrack labels",
  key: "backend",
}

/**
 * The port mappings of containers in the thread's namespace, and the conntrack entries of UDP that go with them. `add` returns the
 * addresses that the ports lead to which another attachment of the container has: for these ports the new mappings stand by.
 */
export class Hostports extends OwnedRules<PortmapSpec, HostportHints, readonly Uint8Array[]> implements Disposable {
  readonly #filter: PacketFilter | undefined
  readonly #nftables: NftablesHostports | undefined

  /** `filter` is undefined where the kernel has no nf_tables. It is closed with these. */
  constructor(filter: PacketFilter | undefined) {
    const nftables = filter && new NftablesHostports(filter)
    const iptables = new IptablesHostports(filter, nftables)
    super(feature, filter, { nftables, iptables, otherSuite: filter && new UpstreamHostports(filter) })
    this.#filter = filter
    this.#nftables = nftables
  }

  /** Throws `EPERM` without CAP_NET_ADMIN. */
  static open(): Hostports {
    return new Hostports(PacketFilter.find())
  }

  /** The last thing to be done here. */
  override remove(owner: Owner, { addresses, mappings }: HostportHints): void {
    const failures = new Failures()
    super.remove(owner, { addresses, mappings }, failures)
    // What was deleted was in the table, and with it the record of the setting.
    if (!this.#nftables?.deleted.length) this.#guardOpenLinks(addresses, failures)
    this.#finish(dnatMappings(addresses, mappings), failures)
    this.#filter?.socket.leave() // nothing is left to do here that the waiting could overlap with
    failures.throwIfAny()
  }

  override gc(network: string, valid: readonly Owner[]): void {
    const failures = new Failures()
    super.gc(network, valid, failures)
    this.#guardOpenLinks([], failures)
    this.#finish([], failures)
    failures.throwIfAny()
  }

  /** Returns whether nf_tables holds a mapping of an attachment. Throws `NetlinkError`. */
  isInNftables(owner: Owner): boolean {
    return this.#nftables?.holds(owner) === true
  }

  /** Returns whether 127.0.0.0/8 is guarded; true also where the kernel has no nf_tables to guard it by. */
  isGuarded(): boolean {
    return this.#nftables?.isClosed() ?? true
  }

  /** Guards 127.0.0.0/8 again where `route_localnet` is on for these interfaces; nothing where the kernel has no nf_tables. */
  restoreGuard(open: readonly string[]): void {
    this.#nftables?.restoreGuard(open)
  }

  #guardOpenLinks(addresses: readonly Uint8Array[], failures: Failures): void {
    failures.attempt("guard 127.0.0.0/8", () => this.#nftables?.guardOpenLinks(addresses))
  }

  /** `others` may have been mapped, too: by iptables, or by a table that was flushed since. */
  #finish(others: readonly DnatMapping[], failures: Failures): void {
    const { deleted = [], stillOn = [] } = this.#nftables ?? {}
    const mappings = [...deleted, ...others]
    failures.attempt("flush UDP conntrack entries", () =>
      onFlows(this.#filter, (socket) => flushEntriesOf(socket, mappings)),
    )
    failures.attempt("switch off route_localnet", () => {
      if (stillOn.length > 0) throw localnetStays(stillOn)
    })
  }

  protected override flushFlows(specs: readonly PortmapSpec[]): void {
    onFlows(this.#filter, (socket) => flushUnmapped(socket, specs))
  }

  /** Flushes the conntrack entries of UDP from before the mappings, so that the kernel translates the next packets. */
  flushOlderEntries(addresses: readonly MappedAddress[], ahead: readonly Uint8Array[]): void {
    onFlows(this.#filter, (socket) => flushOlderEntries(socket, addresses, ahead))
  }

  [Symbol.dispose](): void {
    this.#filter?.[Symbol.dispose]()
  }
}
