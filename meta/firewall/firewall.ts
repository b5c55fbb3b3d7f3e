import { chooseVariant, findPrograms, isTableInUse } from "../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { type Element, PacketFilter } from "../../pkg/nftables/mod.ts"
import { AF_INET, CniError, Code, isCniError, type Owner } from "../../pkg/types/mod.ts"
import { Failures, type Undo } from "../../pkg/undo/mod.ts"
import type { FirewallConfig } from "./config.ts"
import { checkAcceptMarked, ensureAcceptMarked, removeAcceptMarked } from "./iptables/accept-marked.ts"
import {
  addIptablesFirewall,
  checkIptablesFirewall,
  deleteIptablesFirewall,
  gcIptablesFirewall,
  listLabels,
} from "./iptables/firewall.ts"
import { hostOf, TABLE } from "./iptables/rules.ts"
import {
  addFirewall,
  canFilter,
  checkFirewall,
  deleteFirewall,
  gcFirewall,
  listAddresses,
} from "./nftables/firewall.ts"
import { FIREWALL_TABLE } from "./nftables/layout.ts"
import type { FirewallSpec } from "./spec.ts"
import {
  addSources,
  checkSources,
  findFirewalld,
  removeSources,
  type Source,
  sourcesAt,
  sourcesOf,
  sourcesOfOwner,
} from "./zones.ts"

/** What DEL has been told of an attachment, which may be nothing, or wrong. */
export interface Told {
  addresses: readonly Uint8Array[]
  bridge: string | undefined
}

/** What a firewall is made of. */
export interface FirewallParts {
  /** Undefined where the kernel has no nf_tables. */
  readonly filter: PacketFilter | undefined
  readonly findFirewalld: typeof findFirewalld
}

const NO_NFTABLES = "the kernel needs nf_tables with connection tracking"
const NO_IPTABLES = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'
const NO_FIREWALLD = 'firewalld is not running, or its bus cannot be reached, and "backend" asks for it'

/**
 * The traffic of containers in the thread's namespace: let through, and kept apart by policies. By firewalld where it runs or is asked
 * for, by nf_tables wherever the kernel can, by iptables when it is asked for or when the kernel leaves no choice. nf_tables keeps the
 * record of firewalld's sources, too. What is deleted is deleted from all of them, and what the Go suite has left in any.
 */
export class Firewall implements Disposable {
  /** Undefined where the kernel has no nf_tables. */
  readonly #filter: PacketFilter | undefined
  readonly #log: (line: string) => void
  readonly #findFirewalld: typeof findFirewalld

  /** Of the thread's namespace and this host's firewalld, where no `parts` are given. */
  constructor(log: (line: string) => void, parts: FirewallParts = { filter: PacketFilter.find(), findFirewalld }) {
    this.#filter = parts.filter
    this.#findFirewalld = parts.findFirewalld
    this.#log = log
  }

  /** Whether the kernel may have rules of firewalld. */
  readonly #isFiltering = () => this.#filter?.hasTable(/^firewalld/) ?? true

  get #nftables(): NetlinkSocket | undefined {
    return this.#filter?.socket
  }

  /** Doing it again changes nothing. Throws `CniError`; `undo` takes back what has changed. */
  add(spec: FirewallSpec, { backend, firewalldZone }: FirewallConfig, undo: Undo): void {
    using firewalld = this.#findFirewalld(backend, this.#log, this.#isFiltering)
    if (backend === "firewalld" && !firewalld)
      throw new CniError(Code.Internal, `Cannot use firewalld: ${NO_FIREWALLD}`)
    const former = firewalld ? sourcesOfOwner(this.#nftables, spec.owner) : []
    if (backend === "iptables") this.#addByIptables(spec, undo)
    else this.#addByNftables(spec, backend, firewalld && firewalldZone, undo)
    if (!firewalld) return
    addSources(
      { firewalld, zone: firewalldZone, socket: this.#nftables, log: this.#log, isFiltering: this.#isFiltering },
      spec.addresses,
      undo,
    )
    const own = spec.addresses.map(hostOf)
    const gone = former.filter(({ source }) => !own.includes(source))
    removeSources(firewalld, gone, this.#log)
  }

  #addByIptables(spec: FirewallSpec, undo: Undo): void {
    undo.defer(
      "let traffic through",
      () => deleteIptablesFirewall(this.#nftables, spec.owner, [], undefined),
      () => addIptablesFirewall(this.#nftables, spec),
    )
  }

  #addByNftables(spec: FirewallSpec, backend: FirewallConfig["backend"], zone: string | undefined, undo: Undo): void {
    const filter = this.#filter
    try {
      if (!filter) throw new CniError(Code.Internal, `Cannot filter by nftables: ${NO_NFTABLES}`)
      const isWhole = undo.defer(
        "let traffic through",
        () => {
          deleteFirewall(filter.socket, spec.owner)
          filter.forgetTables()
          removeAcceptMarked(filter, spec.adminChain)
        },
        () => addFirewall(filter.socket, spec, zone),
      )
      if (!isWhole)
        this.#log("The kernel has no nf_tables for bridges: ports of one bridge are apart with br_netfilter only")
    } catch (cause) {
      if (backend !== "nftables" && !(filter && canFilter(filter.socket, spec.adminChain))) {
        this.#addByIptables(spec, undo)
        return
      }
      if (isCniError(cause)) throw cause
      throw new CniError(Code.Internal, "Cannot filter by nftables", { cause })
    }
    filter.forgetTables()
    for (const line of ensureAcceptMarked(filter, spec.addresses, spec.adminChain)) this.#log(line)
  }

  /**
   * Checks that all is as `add` has left it, by the backend that ADD takes or, since containers outlive changes of configuration,
   * by another one. Throws `CniError` that tells what was expected and what was found.
   */
  check(spec: FirewallSpec, { backend, firewalldZone }: FirewallConfig): void {
    const byNftables = () => {
      const filter = this.#filter
      if (!filter) throw new CniError(Code.Internal, `Cannot filter by nftables: ${NO_NFTABLES}`)
      checkFirewall(filter.socket, spec)
      checkAcceptMarked(filter, spec.addresses)
    }
    const byIptables = () => checkIptablesFirewall(this.#nftables, spec)
    const [first, second] =
      backend === "iptables" || !this.#filter ? [byIptables, byNftables] : [byNftables, byIptables]
    const failures = new Failures()
    failures.attempt("check the firewall", first)
    const others = new Failures()
    if (failures.any) others.attempt("check the firewall", second)
    const noted = sourcesAt(this.#nftables, spec.addresses)
    const isAsked = backend === "firewalld"
    // What the Go suite has made by firewalld is in no packet filter of ours.
    using firewalld =
      isAsked || noted.length > 0 || others.any
        ? this.#findFirewalld(isAsked ? backend : undefined, this.#log, this.#isFiltering)
        : undefined
    if (isAsked && !firewalld) throw new CniError(Code.Internal, `Cannot use firewalld: ${NO_FIREWALLD}`)
    const isTheirs = others.any && spec.policy === "open"
    if (firewalld && (isAsked || isTheirs || noted.length > 0)) {
      checkSources(
        firewalld,
        noted.length > 0 ? noted : spec.addresses.map((ip) => ({ zone: firewalldZone, source: hostOf(ip) })),
      )
      if (isTheirs && noted.length === 0) return
    }
    if (others.any) failures.throwIfAny()
  }

  /**
   * Ends what `add` has begun, found by the attachment's names alone, by all backends; of what the Go suite has made it has to be told
   * the addresses. Goes through all steps even when one fails, and then throws `CniError`. Nothing there is success.
   */
  delete(
    owner: Owner,
    { backend, firewalldZone, iptablesAdminChainName }: FirewallConfig,
    { addresses, bridge }: Told,
  ): void {
    const filter = this.#filter
    const failures = new Failures()
    let elements: readonly Element[] = []
    failures.attempt("remove the firewall's rules", () => {
      if (filter?.hasTable(FIREWALL_TABLE)) elements = deleteFirewall(filter.socket, owner, addresses)
    })
    const sources = sourcesOf(elements)
    // The Go suite keeps no record of the sources that it has added.
    if (elements.length === 0 && (backend === undefined || backend === "firewalld")) {
      sources.push(...addresses.map((ip) => ({ zone: firewalldZone, source: hostOf(ip) })))
    }
    this.#removeSources(sources, failures)
    failures.attempt("remove the firewall's rules of iptables", () => {
      if (isTableInUse(filter, TABLE)) deleteIptablesFirewall(filter?.socket, owner, addresses, bridge)
    })
    failures.attempt("remove the way through iptables", () => removeAcceptMarked(filter, iptablesAdminChainName))
    filter?.socket.leave() // nothing is left to do here that the waiting could overlap with
    failures.throwIfAny()
  }

  /** Removes sources, but for those that others have by now. */
  #removeSources(sources: readonly Source[], failures: Failures): void {
    if (sources.length === 0) return
    failures.attempt("remove the sources of firewalld", () => {
      using firewalld = this.#findFirewalld(undefined, this.#log)
      if (!firewalld) return // its sources have ended with it
      const socket = this.#nftables
      const kept = [
        ...(socket ? listAddresses(socket).map(({ key: [ip] }) => ip && hostOf(ip)) : []),
        ...listLabels(socket).map(({ ip }) => ip),
      ]
      removeSources(
        firewalld,
        sources.filter(({ source }) => !kept.includes(source)),
        this.#log,
      )
    })
  }

  /** Ends what belongs to none of the valid attachments of a network, like `delete`. */
  gc(
    network: string,
    valid: readonly Owner[],
    { iptablesAdminChainName }: Pick<FirewallConfig, "iptablesAdminChainName">,
  ): void {
    const filter = this.#filter
    const failures = new Failures()
    failures.attempt("remove stale rules of the firewall", () => {
      if (filter?.hasTable(FIREWALL_TABLE)) {
        this.#removeSources(sourcesOf(gcFirewall(filter.socket, network, valid)), failures)
      }
    })
    failures.attempt("remove stale rules of iptables", () => {
      if (isTableInUse(filter, TABLE)) gcIptablesFirewall(filter?.socket, network, valid)
    })
    failures.attempt("remove the way through iptables", () => removeAcceptMarked(filter, iptablesAdminChainName))
    failures.throwIfAny()
  }

  /** Throws code 50 with the reason when this host cannot filter, for STATUS. Runs no program. */
  requireUsable({ backend, iptablesAdminChainName }: FirewallConfig): void {
    const socket = this.#nftables
    if (backend === "firewalld") {
      using firewalld = this.#findFirewalld(backend, this.#log)
      if (firewalld) return
    } else {
      if (backend !== "iptables" && socket && canFilter(socket, iptablesAdminChainName)) return
      if (backend !== "nftables" && findPrograms(AF_INET, chooseVariant(socket))) return
    }
    throw new CniError(Code.PluginNotAvailable, `Cannot filter by ${backend ?? "nftables or iptables"}`, {
      details: {
        nftables: NO_NFTABLES,
        iptables: NO_IPTABLES,
        firewalld: NO_FIREWALLD,
        any: `${NO_NFTABLES}; ${NO_IPTABLES}`,
      }[backend ?? "any"],
    })
  }

  [Symbol.dispose](): void {
    this.#filter?.[Symbol.dispose]()
  }
}
