import { chooseVariant, findPrograms, isTableInUse } from "../../pkg/iptables/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { openNetfilter, PacketFilter } from "../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family, isCniError, type Owner } from "../../pkg/types/mod.ts"
import { Failures, type Undo } from "../../pkg/undo/mod.ts"
import type { Backend } from "./config.ts"
import { flushEntriesOf, flushOlderEntries } from "./flush-conntrack.ts"
import {
  addIptablesHostports,
  checkIptablesHostports,
  deleteIptablesHostports,
  gcIptablesHostports,
  hasIptablesHostports,
} from "./iptables/hostports.ts"
import type { IptablesOptions } from "./iptables/rules.ts"
import { type DnatMapping, dnatMappings, type MappedAddress, type Mapping, type PortmapSpec } from "./mapping.ts"
import { addHostports, closeRanks, undoAddHostports } from "./nftables/add.ts"
import { checkHostports } from "./nftables/check.ts"
import { findNft } from "./nftables/conditions.ts"
import {
  type DeleteContext,
  deleteEmptyTables,
  deleteHostports,
  deleteUpstreamHostports,
  gcHostports,
  UPSTREAM_TABLE,
} from "./nftables/delete.ts"
import { canMapPorts, HOSTPORTS_TABLE } from "./nftables/table.ts"
import { findOpenLinks, guardLocalnet, localnetStays, undoLocalnetEntry } from "./route-localnet.ts"

/** Which backend, and what it depends on. */
export interface BackendOptions extends IptablesOptions {
  /** Undefined: nf_tables if the kernel can do it. */
  backend: Backend | undefined
}

const NEEDS = "the kernel needs nf_tables with NAT and the expression fib"

/**
 * The port mappings of containers in the thread's namespace, by either packet filter: nf_tables wherever the kernel can,
 * iptables when it is asked for or when the kernel cannot. What is deleted is deleted from both, and what the Go suite has
 * left in either.
 */
export class Hostports implements Disposable {
  readonly #sockets: NetlinkSocket[] = []
  /** Undefined where the kernel has no nf_tables. */
  readonly #filter: PacketFilter | undefined

  private constructor() {
    this.#filter = PacketFilter.find()
    if (this.#filter) this.#sockets.push(this.#filter.socket)
  }

  #openSocket(): NetlinkSocket {
    const socket = openNetfilter()
    this.#sockets.push(socket)
    return socket
  }

  get #nftables(): NetlinkSocket | undefined {
    return this.#filter?.socket
  }

  /** Throws `EPERM` without CAP_NET_ADMIN. */
  static open(): Hostports {
    return new Hostports()
  }

  /**
   * Maps the ports. Doing it again changes nothing. Returns where the ports lead that another attachment of the container
   * has, so that these mappings stand by. Throws `CniError`; `undo` takes back what has changed.
   */
  add(spec: PortmapSpec, { backend, ...options }: BackendOptions, undo: Undo): readonly Uint8Array[] {
    this.#filter?.forgetTables()
    if (backend === "iptables") return this.#addByIptables(spec, options, undo)
    try {
      const socket = this.#requireNftables()
      const made = addHostports(socket, spec)
      undo.defer("map ports", () => undoAddHostports(this.#contextOf(socket), spec, made))
      if (made.mustCloseRanks) closeRanks(socket, spec)
      return made.ahead
    } catch (error) {
      if (this.#nftables && isCniError(error)) throw error
      const isLacking = !spec.addresses.every(({ family }) => this.#canMap(family))
      if (isLacking && backend === undefined) return this.#addByIptables(spec, options, undo)
      if (isCniError(error)) throw error
      const needs = isLacking ? `: ${NEEDS}` : ""
      throw new CniError(Code.Internal, `Cannot map ports by nftables${needs}`, { cause: error })
    }
  }

  #addByIptables(spec: PortmapSpec, options: IptablesOptions, undo: Undo): readonly Uint8Array[] {
    const { openedLink } = spec
    if (this.#nftables && openedLink !== undefined) this.#guard(this.#nftables, openedLink, undo)
    const ahead = naming(spec, options, () => addIptablesHostports(this.#nftables, spec, options))
    undo.defer("map ports", () => deleteIptablesHostports(this.#nftables, spec.owner))
    return ahead
  }

  /** The rules of iptables, which are upstream's, would leave 127.0.0.0/8 open to containers. */
  #guard(socket: NetlinkSocket, link: string, undo: Undo): void {
    if (!this.#canMap(AF_INET)) return // a kernel with a part of nf_tables
    const made = guardLocalnet(socket, link)
    undo.defer("guard 127.0.0.0/8", () => {
      for (const entry of made) undoLocalnetEntry(socket, entry)
      deleteEmptyTables(this.#contextOf(socket))
    })
  }

  /** The setting `route_localnet` is not left on without the guard, as `nft flush ruleset` leaves it. */
  #guardOpenLinks(addresses: readonly Uint8Array[]): void {
    const links = this.#nftables ? findOpenLinks(addresses) : []
    for (const link of links) if (this.#nftables && this.#canMap(AF_INET)) guardLocalnet(this.#nftables, link)
  }

  #requireNftables(): NetlinkSocket {
    if (this.#nftables) return this.#nftables
    throw new CniError(Code.Internal, "Cannot map ports by nftables: the kernel has no nf_tables", {
      details: 'load the module "nf_tables", or set "backend" to "iptables"',
    })
  }

  #canMap(family: Family): boolean {
    return this.#nftables !== undefined && canMapPorts(this.#nftables, family)
  }

  /**
   * Checks that all is as `add` has left it, by the backend that ADD takes or, since containers outlive changes of
   * configuration, by the other one. Throws `CniError` that tells what was expected and what was found.
   */
  check(spec: PortmapSpec, { backend, ...options }: BackendOptions): void {
    const byNftables = () => checkHostports(this.#requireNftables(), spec)
    const byIptables = () => checkIptablesHostports(this.#nftables, spec, options)
    const isIptables = backend === "iptables" || (backend === undefined && !this.#nftables)
    const [first, second] = isIptables ? [byIptables, byNftables] : [byNftables, byIptables]
    const failures = new Failures()
    failures.attempt("check the port mappings", first)
    if (!failures.any) return
    const others = new Failures()
    others.attempt("check the port mappings", second)
    if (others.any) failures.throwIfAny()
  }

  /**
   * Deletes the mappings of an attachment, found by its names alone, and flushes the conntrack entries of UDP that went
   * through them; needs no program for it, except for iptables' legacy tables. `mappings` and the container's `addresses`
   * may be missing, or wrong. Goes through all steps, whichever fail, and then throws `CniError`. Nothing there is success.
   * The last thing to be done here.
   */
  delete(owner: Owner, mappings: readonly Mapping[], addresses: readonly Uint8Array[]): void {
    const filter = this.#filter
    const failures = new Failures()
    const deleted: DnatMapping[] = []
    failures.attempt("remove the port mappings of iptables", () => {
      if (isTableInUse(filter, "nat")) deleteIptablesHostports(filter?.socket, owner)
    })
    // After those of iptables, which may be all that still needs `route_localnet`.
    failures.attempt("remove the port mappings", () => {
      if (filter?.hasTable(HOSTPORTS_TABLE))
        deleted.push(...deleteHostports(this.#contextOf(filter.socket, failures), owner, mappings))
    })
    failures.attempt("remove the other suite's port mappings", () => {
      if (filter?.hasTable(UPSTREAM_TABLE)) deleteUpstreamHostports(filter.socket, owner.containerId, addresses)
    })
    // What was deleted was in the table, and with it the record of the setting.
    if (deleted.length === 0) failures.attempt("guard 127.0.0.0/8", () => this.#guardOpenLinks(addresses))
    failures.attempt("forget the UDP flows", () => {
      this.#flush((socket) => flushEntriesOf(socket, [...deleted, ...dnatMappings(addresses, mappings)]))
    })
    for (const socket of this.#sockets) socket.leave() // nothing is left to do here that the waiting could overlap with
    failures.throwIfAny()
  }

  /** Deletes the mappings of all attachments to this network but the valid ones, like `delete`. */
  gc(network: string, valid: readonly Owner[]): void {
    const nftables = this.#nftables
    const failures = new Failures()
    failures.attempt("remove stale port mappings of iptables", () => gcIptablesHostports(nftables, network, valid))
    if (nftables) {
      failures.attempt("remove stale port mappings", () => {
        const deleted = gcHostports(this.#contextOf(nftables, failures), network, valid)
        this.#flush((socket) => flushEntriesOf(socket, deleted))
      })
      failures.attempt("guard 127.0.0.0/8", () => this.#guardOpenLinks([]))
    }
    failures.throwIfAny()
  }

  #contextOf(socket: NetlinkSocket, failures?: Failures): DeleteContext {
    return {
      socket,
      isLocalnetNeeded: () => isTableInUse(this.#filter, "nat") && hasIptablesHostports(socket),
      localnetStays(links) {
        failures?.attempt("switch off route_localnet", () => {
          throw localnetStays(links)
        })
      },
    }
  }

  /** Flushes the conntrack entries of UDP from before the mappings, so that the kernel judges the next packets anew. */
  flushOlderEntries(addresses: readonly MappedAddress[], ahead: readonly Uint8Array[]): void {
    this.#flush((socket) => flushOlderEntries(socket, addresses, ahead))
  }

  /** A kernel without connection tracking over netlink has no entries that could be flushed. */
  #flush(flush: (socket: NetlinkSocket) => void): void {
    try {
      flush(this.#nftables ?? this.#openSocket())
    } catch (error) {
      if (!isErrno(error, "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT", "EAFNOSUPPORT")) throw error
    }
  }

  /** Throws code 50 with the reason when this host cannot map ports, for STATUS. Runs no program. */
  requireUsable({ backend, conditions }: BackendOptions & Pick<PortmapSpec, "conditions">): void {
    const needsNft = conditions[AF_INET].length + conditions[AF_INET6].length > 0
    const canNftables = backend !== "iptables" && this.#canMap(AF_INET) && (!needsNft || findNft() !== undefined)
    if (canNftables) return
    if (backend !== "nftables" && findPrograms(AF_INET, chooseVariant(this.#nftables))) return
    const nftables = needsNft ? `${NEEDS}, and the program "nft" for conditions` : NEEDS
    const iptables = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'
    throw new CniError(Code.PluginNotAvailable, `Cannot map ports by ${backend ?? "nftables or iptables"}`, {
      details: { nftables, iptables, any: `${nftables}; ${iptables}` }[backend ?? "any"],
    })
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket[Symbol.dispose]()
  }
}

/** Runs what writes rules of iptables. Its refusal names the keys whose words are in them: they may be what is refused. */
function naming<T>({ conditions }: PortmapSpec, { externalSetMarkChain }: IptablesOptions, add: () => T): T {
  try {
    return add()
  } catch (error) {
    const keys = externalSetMarkChain === undefined ? [] : ["externalSetMarkChain"]
    for (const [family, key] of [[AF_INET, "conditionsV4"] as const, [AF_INET6, "conditionsV6"] as const])
      if (conditions[family].length > 0) keys.push(key)
    if (!isCniError(error) || keys.length === 0) throw error
    const named = `the rules have what ${keys.map((key) => `"${key}"`).join(" and ")} says`
    throw new CniError(error.code, error.message, { details: [error.details, named].filter(Boolean).join("; ") })
  }
}
