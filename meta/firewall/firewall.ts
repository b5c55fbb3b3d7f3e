import { type Element, PacketFilter } from "../../pkg/nftables/mod.ts"
import { type Feature, OwnedRules, type RestoreOptions } from "../../pkg/rules/mod.ts"
import { CniError, Code, hostCidr, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import { Failures, type Undo } from "../../pkg/undo/mod.ts"
import type { FirewallConfig } from "./config.ts"
import { removeAcceptMarked } from "./iptables/accept-marked.ts"
import { IptablesFirewall, listLabels } from "./iptables/firewall.ts"
import { listAddresses, NftablesFirewall } from "./nftables/firewall.ts"
import { type DelHints, type FirewallSpec, readNote, type ZonedSpec } from "./spec.ts"
import {
  addSources,
  checkSources,
  findFirewalld,
  removeSources,
  restoreSources,
  type Source,
  sourcesAt,
  sourcesOf,
  sourcesOfOwner,
} from "./zones.ts"

/** The objects through which a firewall acts. Tests replace these objects. */
export interface FirewallParts {
  /** Undefined if the kernel has no nf_tables. */
  readonly filter: PacketFilter | undefined
  readonly findFirewalld: typeof findFirewalld
}

export interface RestorableFirewall {
  readonly spec: FirewallSpec
  readonly config: FirewallConfig
  tell(what: string): void
  refuse(error: unknown): void
}

const feature: Feature<ZonedSpec> = {
  rules: "firewall rules",
  does: () => "filter",
  needs: "the kernel needs nf_tables with connection tracking",
  key: "backend",
}

const NO_FIREWALLD = 'firewalld is not running, or its bus is unreachable, but "backend" requires it'

/**
 * The firewall rules of containers in the thread's namespace, which accept traffic and apply policies. If firewalld
 * runs, the containers' addresses are also sources of a zone, which is recorded in nf_tables.
 */
export class Firewall implements Disposable {
  readonly #filter: PacketFilter | undefined
  readonly #nftables: NftablesFirewall | undefined
  readonly #rules: OwnedRules<ZonedSpec, DelHints>
  readonly #log: (line: string) => void
  readonly #findFirewalld: typeof findFirewalld

  /** Opens the packet filter of the thread's namespace, unless `parts` are given. */
  constructor(log: (line: string) => void, parts: FirewallParts = { filter: PacketFilter.find(), findFirewalld }) {
    const { filter } = parts
    const nftables = filter && new NftablesFirewall(filter, log)
    this.#filter = filter
    this.#nftables = nftables
    this.#rules = new OwnedRules<ZonedSpec, DelHints>(feature, filter, {
      nftables,
      iptables: new IptablesFirewall(filter),
    })
    this.#findFirewalld = parts.findFirewalld
    this.#log = log
  }

  /** Reports whether the kernel may have rules of firewalld. */
  readonly #isFiltering = () => this.#filter?.hasTable(/^firewalld/) ?? true

  /** Adds the rules of an attachment. A repeated call changes nothing. `undo` gets the reverse. Throws `CniError`. */
  add(spec: FirewallSpec, { backend, firewalldZone }: FirewallConfig, undo: Undo, log?: (line: string) => void): void {
    const socket = this.#filter?.socket
    using firewalld = this.#findFirewalld(backend, this.#log, this.#isFiltering)
    if (backend === "firewalld" && !firewalld) throw noFirewalld()
    const former = firewalld ? sourcesOfOwner(socket, spec.owner) : []
    this.#rules.add({ ...spec, zone: firewalld && firewalldZone }, filterOf(backend), undo, log)
    if (!firewalld) return
    addSources(
      { firewalld, zone: firewalldZone, socket, log: this.#log, isFiltering: this.#isFiltering },
      spec.addresses,
      undo,
    )
    const own = spec.addresses.map(hostCidr)
    const stale = former.filter(({ source }) => !own.includes(source))
    removeSources(firewalld, stale, this.#log)
  }

  /** Restores the missing rules of many attachments in one transaction, and their missing sources in firewalld. */
  restore(wanted: readonly RestorableFirewall[], options: RestoreOptions): void {
    for (const [backend, ours] of Map.groupBy(wanted, ({ config }) => config.backend)) {
      try {
        this.#restoreBy(backend, ours, options)
      } catch (error) {
        for (const { refuse } of ours) refuse(error)
      }
    }
  }

  #restoreBy(backend: FirewallConfig["backend"], wanted: readonly RestorableFirewall[], options: RestoreOptions): void {
    using firewalld = this.#findFirewalld(backend, this.#log, this.#isFiltering)
    if (backend === "firewalld" && !firewalld) throw noFirewalld()
    if (options.toIptables && firewalld && backend !== "iptables") {
      this.#leaveToFirewalld(wanted, options)
      return
    }
    const made = new Set<RestorableFirewall>()
    const rules = wanted.map((one) => ({
      spec: { ...one.spec, zone: firewalld && one.config.firewalldZone },
      asked: filterOf(backend),
      made: () => {
        made.add(one)
        one.tell("firewall rules")
      },
      refuse: one.refuse,
    }))
    this.#rules.restore(rules, options)
    if (options.toIptables && !options.isDry) this.#removeAcceptRules(wanted)
    if (options.toIptables || !firewalld) return
    const socket = this.#filter?.socket
    const noted = Map.groupBy(socket ? listAddresses(socket) : [], ({ comment }) => comment)
    const sources = wanted.map((one) => {
      const former = made.has(one) ? [] : sourcesOf(noted.get(ownerComment(one.spec.owner)) ?? [])
      // Attachments from before firewalld have no note.
      return { one, sources: former.length > 0 ? former : sourcesIn(one.config.firewalldZone, one.spec.addresses) }
    })
    restoreSources(firewalld, sources, { ...options, isFiltering: this.#isFiltering })
  }

  /**
   * Removes the rules in nf_tables but not the sources in firewalld: the Go suite uses only sources if firewalld runs.
   */
  #leaveToFirewalld(wanted: readonly RestorableFirewall[], { isDry }: RestoreOptions): void {
    for (const { spec, tell, refuse } of wanted) {
      try {
        if (!isDry) this.#nftables?.remove(spec.owner)
        tell("firewall rules")
      } catch (error) {
        refuse(error)
      }
    }
    if (!isDry) this.#removeAcceptRules(wanted)
  }

  #removeAcceptRules(wanted: readonly RestorableFirewall[]): void {
    const failures = new Failures()
    for (const chain of new Set(wanted.map(({ config }) => config.iptablesAdminChainName)))
      this.#removeAcceptMarked(chain, failures)
    failures.throwIfAny()
  }

  /** Checks that everything that `add` added is unchanged. Throws `CniError` with the expected and the found state. */
  check(spec: FirewallSpec, { backend, firewalldZone }: FirewallConfig): void {
    const failures = new Failures()
    failures.attempt("check the firewall", () => this.#rules.check({ ...spec, zone: undefined }, filterOf(backend)))
    const noted = sourcesAt(this.#filter?.socket, spec.addresses)
    const isAsked = backend === "firewalld"
    // The Go suite's rules may be in firewalld, not in nf_tables or iptables.
    using firewalld =
      isAsked || noted.length > 0 || failures.any
        ? this.#findFirewalld(isAsked ? backend : undefined, this.#log, this.#isFiltering)
        : undefined
    if (isAsked && !firewalld) throw noFirewalld()
    const isTheirs = failures.any && spec.policy === "open"
    if (firewalld && (isAsked || isTheirs || noted.length > 0)) {
      checkSources(firewalld, noted.length > 0 ? noted : sourcesIn(firewalldZone, spec.addresses))
      if (isTheirs && noted.length === 0) return
    }
    failures.throwIfAny()
  }

  /**
   * Removes everything that `add` added for an attachment, found by its owner. Rules of the Go suite, which name no
   * owner, are found by the addresses in the hints. Continues after a failure, and throws `CniError` at the end.
   * Missing rules are not an error.
   */
  remove(owner: Owner, { backend, firewalldZone, iptablesAdminChainName }: FirewallConfig, hints: DelHints): void {
    const failures = new Failures()
    this.#rules.remove(owner, hints, failures)
    const { deleted = [] } = this.#nftables ?? {}
    // The Go suite does not record which sources it has added.
    const isTheirs = deleted.length === 0 && (backend === undefined || backend === "firewalld")
    const theirs = isTheirs ? sourcesIn(firewalldZone, hints.addresses) : []
    const later = this.#sourcesAddedLater(deleted, { backend, firewalldZone })
    this.#removeSources([...sourcesOf(deleted), ...theirs, ...later], failures)
    this.#removeAcceptMarked(iptablesAdminChainName, failures)
    this.#filter?.socket.leave() // no work is left to do during the wait
    failures.throwIfAny()
  }

  /** Removes the rules of this network's attachments that are not valid, like `remove`. */
  gc(
    network: string,
    valid: readonly Owner[],
    config: Pick<FirewallConfig, "backend" | "firewalldZone" | "iptablesAdminChainName">,
  ): void {
    const failures = new Failures()
    this.#rules.gc(network, valid, failures)
    const { deleted = [] } = this.#nftables ?? {}
    this.#removeSources([...sourcesOf(deleted), ...this.#sourcesAddedLater(deleted, config)], failures)
    this.#removeAcceptMarked(config.iptablesAdminChainName, failures)
    failures.throwIfAny()
  }

  /** Returns the sources that `restore` may have added for attachments from before firewalld, which have no note. */
  #sourcesAddedLater(
    deleted: readonly Element[],
    { backend, firewalldZone }: Pick<FirewallConfig, "backend" | "firewalldZone">,
  ): Source[] {
    if (backend !== undefined && backend !== "firewalld") return []
    const addresses = deleted.flatMap(({ key: [ip], note }) => (ip && !readNote(note).zone ? [ip] : []))
    return addresses.length > 0 && this.#isFiltering() ? sourcesIn(firewalldZone, addresses) : []
  }

  #removeAcceptMarked(adminChain: string, failures: Failures): void {
    failures.attempt("remove the accepting rule from iptables", () => removeAcceptMarked(this.#filter, adminChain))
  }

  /** Removes sources, except those whose address another attachment has now. */
  #removeSources(sources: readonly Source[], failures: Failures): void {
    if (sources.length === 0) return
    failures.attempt("remove the sources of firewalld", () => {
      using firewalld = this.#findFirewalld(undefined, this.#log)
      if (!firewalld) return // firewalld has stopped, and its sources no longer exist
      const socket = this.#filter?.socket
      const kept = [
        ...(socket ? listAddresses(socket).map(({ key: [ip] }) => ip && hostCidr(ip)) : []),
        ...listLabels(socket).map(({ ip }) => ip),
      ]
      const stale = sources.filter(({ source }) => !kept.includes(source))
      removeSources(firewalld, stale, this.#log)
    })
  }

  /** Throws code 50 with the reason if this host cannot filter, for STATUS. This runs no program. */
  requireUsable({ backend }: FirewallConfig): void {
    if (backend !== "firewalld") {
      this.#rules.requireUsable(backend)
      return
    }
    using firewalld = this.#findFirewalld(backend, this.#log)
    if (!firewalld) throw new CniError(Code.PluginNotAvailable, "Cannot filter by firewalld", { details: NO_FIREWALLD })
  }

  [Symbol.dispose](): void {
    this.#filter?.[Symbol.dispose]()
  }
}

/** Returns the configured packet filter; undefined if the backend is firewalld, which allows any. */
function filterOf(backend: FirewallConfig["backend"]) {
  return backend === "firewalld" ? undefined : backend
}

function sourcesIn(zone: string, addresses: readonly Uint8Array[]): Source[] {
  return addresses.map((ip) => ({ zone, source: hostCidr(ip) }))
}

function noFirewalld(): CniError {
  return new CniError(Code.Internal, `Cannot use firewalld: ${NO_FIREWALLD}`)
}
