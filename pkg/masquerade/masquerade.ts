import { chooseVariant, findPrograms, isTableInUse } from "../iptables/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { findLink, listAddresses, type NetlinkSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { type PacketFilter, tableFamily } from "../nftables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  type Cidr,
  CniError,
  Code,
  type Family,
  familyOf,
  formatCidr,
  isCniError,
  type Owner,
} from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import {
  addIptablesMasquerade,
  checkIptablesMasquerade,
  deleteIptablesMasquerade,
  gcIptablesMasquerade,
} from "./iptables.ts"
import { addMasquerade, canMasquerade, checkMasquerade, deleteMasquerade, gcMasquerade } from "./nftables.ts"
import { MASQUERADE_TABLE } from "./nftables-layout.ts"
import {
  checkUpstreamMasquerade,
  deleteUpstreamMasquerade,
  gcUpstreamMasquerade,
  UPSTREAM_MASQUERADE_TABLE,
} from "./upstream.ts"

/** What `ipMasqBackend` may say. */
export type MasqueradeBackend = "nftables" | "iptables"

/**
 * The masquerade of containers in the thread's namespace by either packet filter: nf_tables wherever the kernel can,
 * iptables when it is asked for or when the kernel cannot. What is removed is removed from both, and what the Go suite has
 * left in either.
 *
 * @example
 * using filter = PacketFilter.find()
 * const masquerade = new Masquerade(filter)
 * masquerade.add(owner, addresses, config.ipMasqBackend)
 * undo.defer("masquerade", () => masquerade.remove(owner, namespace))
 */
export class Masquerade {
  /** Undefined where the kernel has no nf_tables. */
  readonly #filter: PacketFilter | undefined

  constructor(filter: PacketFilter | undefined) {
    this.#filter = filter
  }

  /**
   * Masquerades what the addresses send beyond their network. Doing it again changes nothing. Throws `CniError`, and then
   * nothing has changed.
   */
  add(owner: Owner, addresses: readonly Cidr[], backend?: MasqueradeBackend | undefined): void {
    if (addresses.length === 0) return
    this.#filter?.forgetTables()
    try {
      if (backend === "iptables") this.#addByIptables(owner, addresses)
      else addMasquerade(this.#requireNftables(), owner, addresses)
    } catch (error) {
      if (backend !== undefined || this.#canMasquerade(addresses)) throw error
      this.#addInstead(owner, addresses, error)
    }
  }

  #requireNftables(): NetlinkSocket {
    if (this.#filter) return this.#filter.socket
    throw new CniError(Code.Internal, "Cannot masquerade by nftables: the kernel has no nf_tables", {
      details: 'load the module "nf_tables", or set "ipMasqBackend" to "iptables"',
    })
  }

  #addByIptables(owner: Owner, addresses: readonly Cidr[]): void {
    const socket = this.#filter?.socket
    addIptablesMasquerade(socket, chooseVariant(socket), owner, addresses)
  }

  /** By iptables where nf_tables, which would have been better, has failed. */
  #addInstead(owner: Owner, addresses: readonly Cidr[], failure: unknown): void {
    try {
      this.#addByIptables(owner, addresses)
    } catch (error) {
      if (!isCniError(error)) throw error
      throw new CniError(error.code, error.message, { details: `${error.details ?? ""}; and before that: ${failure}` })
    }
  }

  /**
   * Checks that the addresses are masqueraded, by the backend that ADD takes or, since containers outlive changes of
   * configuration and suite, by the other one, or by the Go suite's rules in either. Throws `CniError` that tells what was
   * expected and what was found.
   */
  check(owner: Owner, addresses: readonly Cidr[], backend?: MasqueradeBackend | undefined): void {
    const filter = this.#filter
    const byNftables = () => checkMasquerade(this.#requireNftables(), owner, addresses)
    const byIptables = () => checkIptablesMasquerade(filter?.socket, owner, addresses)
    const byOtherSuite = () => {
      if (!filter?.hasTable(UPSTREAM_MASQUERADE_TABLE)) throw new CniError(Code.Internal, "there is no such table")
      checkUpstreamMasquerade(filter.socket, owner, addresses)
    }
    const isIptables = backend === "iptables" || (backend === undefined && !filter)
    const [first, second] = isIptables ? [byIptables, byNftables] : [byNftables, byIptables]
    const fault = faultOf(first)
    if (fault && faultOf(second) && faultOf(byOtherSuite)) throw fault
  }

  /**
   * Ends the masquerade of an attachment, found by its names alone, and needs no program for it, except for iptables'
   * legacy tables. `namespace` is looked at only when the Go suite has left rules that do not say which of the container's
   * interfaces they are for. Goes through all steps even when one fails, and then throws `CniError`. Nothing there is success.
   */
  remove(owner: Owner, namespace: NamespaceFile): void {
    const filter = this.#filter
    const failures = new Failures()
    failures.attempt("remove the masquerade", () => {
      const isThere = (family: Family) => filter?.hasTable(MASQUERADE_TABLE, tableFamily[family]) === true
      const families = ([AF_INET, AF_INET6] as const).filter(isThere)
      if (filter && families.length > 0) deleteMasquerade(filter.socket, owner, families)
    })
    failures.attempt("remove the other suite's masquerade", () => {
      if (filter?.hasTable(UPSTREAM_MASQUERADE_TABLE)) deleteUpstreamMasquerade(filter.socket, owner)
    })
    failures.attempt("remove the masquerade of iptables", () => {
      let beside: Set<string> | undefined // asked for when the Go suite has left rules, which is seldom
      const isInUse = (source: string) => {
        beside ??= addressesBeside(namespace, owner.ifName)
        return beside.has(source)
      }
      if (isTableInUse(filter, "nat")) deleteIptablesMasquerade(filter?.socket, owner, isInUse)
    })
    failures.throwIfAny()
  }

  /** Ends the masquerade of all attachments to this network but the valid ones, like `remove`. */
  gc(network: string, valid: readonly Owner[]): void {
    const socket = this.#filter?.socket
    const failures = new Failures()
    if (socket) {
      failures.attempt("remove stale masquerades", () => gcMasquerade(socket, network, valid))
      failures.attempt("remove the other suite's masquerades", () => gcUpstreamMasquerade(socket, network, valid))
    }
    failures.attempt("remove stale masquerades of iptables", () => gcIptablesMasquerade(socket, network, valid))
    failures.throwIfAny()
  }

  /** Throws code 50 with the reason when this host cannot masquerade, for STATUS. Runs no program. */
  requireUsable(backend?: MasqueradeBackend | undefined): void {
    const socket = this.#filter?.socket
    const canNftables = backend !== "iptables" && socket !== undefined && canMasquerade(socket, AF_INET)
    if (canNftables || (backend !== "nftables" && findPrograms(AF_INET, chooseVariant(socket)))) return
    const nftables = "the kernel needs nf_tables with NAT"
    const iptables = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'
    throw new CniError(Code.PluginNotAvailable, `Cannot masquerade by ${backend ?? "nftables or iptables"}`, {
      details: { nftables, iptables, any: `${nftables}; ${iptables}` }[backend ?? "any"],
    })
  }

  #canMasquerade(addresses: readonly Cidr[]): boolean {
    const socket = this.#filter?.socket
    return socket !== undefined && addresses.every(({ ip }) => canMasquerade(socket, familyOf(ip)))
  }
}

/** What a check throws; undefined when all is well. */
function faultOf(check: () => void): CniError | undefined {
  try {
    check()
    return undefined
  } catch (cause) {
    return cause instanceof CniError ? cause : new CniError(Code.Internal, "Cannot check the masquerade", { cause })
  }
}

/**
 * The addresses that a container has on other interfaces than this one, each as "10.1.0.2/32". None when the container's
 * namespace is gone, and with it all interfaces; nor for a container that has too many: the host's rules go, and it is the one that
 * misses them.
 */
function addressesBeside(namespace: NamespaceFile, ifName: string): Set<string> {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return new Set()
  using inside = sandbox.openRoute()
  const own = findLink(inside, ifName)?.index
  try {
    const others = listAddresses(inside).filter(({ index }) => index !== own)
    return new Set(others.map(({ ip }) => formatCidr({ ip, prefix: 8 * ip.length })))
  } catch (error) {
    if (isErrno(error, "ETIME")) return new Set()
    throw error
  }
}
