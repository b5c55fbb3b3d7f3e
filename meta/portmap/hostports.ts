import { isTableInUse } from "../../pkg/iptables/mod.ts"
import { exists } from "../../pkg/libc/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import {
  type BackendName,
  type Feature,
  OwnedRules,
  onFlows,
  type RestorableRules,
  type RestoreOptions,
} from "../../pkg/rules/mod.ts"
import { sysctlPath } from "../../pkg/sysctl/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { Failures, type Undo } from "../../pkg/undo/mod.ts"
import type { Backend, PortmapConfig } from "./config.ts"
import { flushEntriesOf, flushOlderEntries, flushUnmapped } from "./flush-conntrack.ts"
import { hasIptablesHostports, iptablesHostports } from "./iptables/backend.ts"
import { dnatMappings, type HostportHints, type MappedAddress, type PortmapSpec } from "./mapping.ts"
import { nftablesHostports, upstreamHostports } from "./nftables/backend.ts"
import { type Deleted, holdsHostports } from "./nftables/delete.ts"
import { guardLocalnet, isClosed, isGuarded, restoreGuard } from "./nftables/localnet-guard.ts"
import {
  checkLocalnet,
  findLocalnetLink,
  findOpenLinks,
  isLocalnetOn,
  localnetStays,
  switchLocalnetOn,
} from "./route-localnet.ts"

/** kube-proxy's link for services in mode ipvs: `defaultDummyDevice` in pkg/proxy/ipvs/proxier.go. */
const KUBE_IPVS_LINK = "kube-ipvs0"

/**
 * Reports whether services' addresses are addresses of the host, as with kube-proxy in mode ipvs. If so, `fib daddr
 * type local` matches services too. Only the table `nat` of iptables can then exclude them, because kube-proxy's rules
 * at the beginning of that table accept packets to services.
 */
export function hasServiceAddresses(): boolean {
  return exists(sysctlPath(`net/ipv4/conf/${KUBE_IPVS_LINK}`)) // the cheapest test: every link with IPv4 has this directory
}

/**
 * Returns the backend for a configuration. If kube-proxy runs in mode ipvs, the backend is iptables, because a mapping
 * in nf_tables would capture traffic of services. Throws `CniError` if the configuration requests nftables in that
 * case.
 */
export function chooseBackend(asked: Backend | undefined): Backend | undefined {
  if (asked === "iptables" || !hasServiceAddresses()) return asked
  if (asked === undefined) return "iptables"
  throw new CniError(
    Code.Internal,
    `Cannot map ports by nftables: kube-proxy runs in ipvs mode, and has the link "${KUBE_IPVS_LINK}"`,
    {
      details: `the ports would receive the traffic of services; set "backend" to "iptables", and write conditions in the syntax of iptables`,
    },
  )
}

/** Returns the port mappings of an attachment. `findLink` returns the interface that needs `route_localnet`, if any. */
export function portmapSpec(
  { owner, netns }: { owner: Owner; netns: string },
  config: PortmapConfig,
  addresses: readonly MappedAddress[],
  findLink: typeof findLocalnetLink = findLocalnetLink,
): PortmapSpec {
  const link = config.snat ? findLink(addresses) : undefined
  const { snat, masqAll, conditions, markMasqBit, externalSetMarkChain, portMappings: mappings = [] } = config
  const keys = { snat, masqAll, conditions, markMasqBit, externalSetMarkChain, mappings }
  const localnetLink = link?.isShared ? link.name : undefined
  return { ...keys, owner, netns, addresses, localnetLink, openedLink: link?.name }
}

const feature: Feature<PortmapSpec> = {
  rules: "port mappings",
  does: () => "map ports",
  needs: "the kernel needs nf_tables with NAT, the fib expression, and conntrack labels",
  key: "backend",
}

/** The port mappings of containers in the thread's namespace, and the UDP conntrack entries of mapped ports. */
export class Hostports implements Disposable {
  readonly #filter: PacketFilter | undefined
  readonly #rules: OwnedRules<PortmapSpec, HostportHints | undefined, readonly Uint8Array[]>
  readonly #all: Deleted = { deleted: [], stillOn: [] }

  /** `filter` is undefined if the kernel has no nf_tables. It is closed together with this object. */
  constructor(filter: PacketFilter | undefined) {
    const socket = filter?.socket
    const isLocalnetNeeded = () => isTableInUse(filter, "nat") && hasIptablesHostports(socket)
    const context = socket && { socket, isLocalnetNeeded }
    this.#filter = filter
    this.#rules = new OwnedRules(feature, filter, {
      nftables: filter && context && nftablesHostports(filter, context, this.#all),
      iptables: iptablesHostports(filter, context),
      otherSuite: filter && upstreamHostports(filter),
    })
  }

  /** Opens the packet filter of the thread's namespace. Throws `EPERM` without CAP_NET_ADMIN. */
  static open(): Hostports {
    return new Hostports(PacketFilter.find())
  }

  /**
   * Maps the ports, then enables `route_localnet`, which is safe only with the guard among the rules. If another
   * attachment of the container has some of the ports, the new mappings of these ports wait. Returns the addresses of
   * these other attachments. Throws `CniError`.
   */
  add(
    spec: PortmapSpec,
    asked: BackendName | undefined,
    undo: Undo,
    log?: (line: string) => void,
  ): readonly Uint8Array[] {
    const ahead = this.#rules.add(spec, asked, undo, log)
    const { openedLink } = spec
    if (openedLink !== undefined && !isLocalnetOn(openedLink)) switchLocalnetOn(openedLink)
    return ahead
  }

  /** Checks the mappings. Returns their backend, or undefined if the Go suite added them. Throws `CniError`. */
  check(spec: PortmapSpec, asked?: BackendName): BackendName | undefined {
    const backend = this.#rules.check(spec, asked)
    if (spec.openedLink !== undefined) checkLocalnet(spec.openedLink)
    return backend
  }

  /**
   * Removes the mappings of an attachment, and their UDP conntrack entries. This must be the last call on this object.
   * Continues after a failure, and throws `CniError` at the end.
   */
  remove(owner: Owner, hints: HostportHints): void {
    const failures = new Failures()
    this.#rules.remove(owner, hints, failures)
    // Deleted mappings were in the table that also records the interfaces with `route_localnet`. If none was deleted,
    // that table may be missing, and the guard is restored.
    if (this.#all.deleted.length === 0) this.#restoreGuardOf(hints, failures)
    this.#finish(hints, failures)
    this.#filter?.socket.leave() // no work is left to do during the wait
    failures.throwIfAny()
  }

  /** Removes the mappings of this network's attachments that are not valid, like `remove`. */
  gc(network: string, valid: readonly Owner[]): void {
    const failures = new Failures()
    const hints = { mappings: [], addresses: [] }
    this.#rules.gc(network, valid, failures)
    this.#restoreGuardOf(hints, failures)
    this.#finish(hints, failures)
    failures.throwIfAny()
  }

  /** Guards the interfaces that have `route_localnet` enabled, and records them for the removal of the last mapping. */
  #restoreGuardOf(hints: HostportHints, failures: Failures): void {
    const socket = this.#filter?.socket
    failures.attempt("guard 127.0.0.0/8", () => {
      if (!socket) return
      for (const link of findOpenLinks(hints)) if (!isGuarded(socket, link)) guardLocalnet(socket, link)
    })
  }

  /** Flushes UDP conntrack entries of deleted and hinted mappings. Adds a failure if `route_localnet` stays enabled. */
  #finish({ addresses, mappings }: HostportHints, failures: Failures): void {
    const removed = [...this.#all.deleted, ...dnatMappings(addresses, mappings)]
    const { stillOn } = this.#all
    failures.attempt("flush UDP conntrack entries", () =>
      onFlows(this.#filter, (socket) => flushEntriesOf(socket, removed)),
    )
    failures.attempt("disable route_localnet", () => {
      if (stillOn.length > 0) throw localnetStays(stillOn)
    })
  }

  restore(wanted: readonly RestorableRules<PortmapSpec>[], options: RestoreOptions): void {
    const flushFlows = (specs: readonly PortmapSpec[]) =>
      onFlows(this.#filter, (socket) => flushUnmapped(socket, specs))
    this.#rules.restore(wanted, options, flushFlows)
  }

  /** Throws code 50 with the reason if this node cannot map ports. */
  requireUsable(asked?: BackendName): void {
    this.#rules.requireUsable(asked)
  }

  /** Reports whether nf_tables has a mapping of an attachment. Throws `NetlinkError`. */
  isInNftables(owner: Owner): boolean {
    return this.#filter !== undefined && holdsHostports(this.#filter.socket, owner)
  }

  /** Reports whether 127.0.0.0/8 is guarded. Returns true without nf_tables, because no guard is possible then. */
  isGuarded(): boolean {
    return this.#filter === undefined || isClosed(this.#filter.socket)
  }

  /** Restores the guard of 127.0.0.0/8 for `open` links. Returns whether it was missing; false without nf_tables. */
  restoreGuard(open: readonly string[]): boolean {
    return this.#filter !== undefined && restoreGuard(this.#filter.socket, open)
  }

  /** Flushes UDP conntrack entries that are older than the mappings, so that the kernel translates the next packets. */
  flushOlderEntries(addresses: readonly MappedAddress[], ahead: readonly Uint8Array[]): void {
    onFlows(this.#filter, (socket) => flushOlderEntries(socket, addresses, ahead))
  }

  [Symbol.dispose](): void {
    this.#filter?.[Symbol.dispose]()
  }
}
