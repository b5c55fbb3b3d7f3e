import { chooseVariant, findPrograms, isTableInUse } from "../../pkg/iptables/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { openNetfilter, PacketFilter } from "../../pkg/nftables/mod.ts"
import { AF_INET, CniError, Code, isCniError, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import type { Backend } from "./config.ts"
import {
  addIptablesHostports,
  checkIptablesHostports,
  gcIptablesHostports,
  hasIptablesHostports,
  removeIptablesHostports,
} from "./iptables/hostports.ts"
import type { IptablesOptions } from "./iptables/rules.ts"
import type { Mapping } from "./mapping.ts"
import { addHostports, type Exchange, takeBackHostports } from "./nftables/add.ts"
import { checkHostports } from "./nftables/check.ts"
import type { Found } from "./nftables/elements.ts"
import { HOSTPORTS_TABLE } from "./nftables/layout.ts"
import { findNft } from "./nftables/program.ts"
import { gcHostports, removeHostports, type Tools } from "./nftables/remove.ts"
import { canMapPorts } from "./nftables/support.ts"
import { removeUpstreamHostports, UPSTREAM_TABLE } from "./nftables/upstream.ts"
import { mappingsFor, type Part } from "./parts.ts"
import type { Request } from "./request.ts"
import { forgetFlowsThrough, forgetOlderFlows } from "./udp-flows.ts"

/** Which backend, and what it depends on. */
export interface Choice extends IptablesOptions {
  /** Undefined: whichever the kernel can do. */
  backend: Backend | undefined
}

/** What an ADD has done. */
export interface Mapped {
  /** In nf_tables; undefined when iptables did it. */
  exchange: Exchange | undefined
  /** Where the ports lead that another attachment of the container has, so that these mappings stand by. */
  ahead: readonly Uint8Array[]
}

/** What DEL and GC may know beside the names; all of it may be missing, or wrong. */
export interface Hints {
  mappings: readonly Mapping[]
  /** The container's. */
  addresses: readonly Uint8Array[]
}

/**
 * The port mappings of containers in the thread's namespace, whichever packet filter does them: nf_tables wherever the
 * kernel can, iptables when it is asked for or when the kernel cannot. What is removed is removed from both, and what the
 * Go suite has left in either.
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
   * Maps the ports. Doing it again changes nothing. Answers what `takeBack` needs. Throws `CniError`, and
   * then nothing has changed.
   */
  add(request: Request, { backend, ...options }: Choice): Mapped {
    this.#filter?.forgetTables()
    if (backend === "iptables") return this.#addByIptables(request, options)
    try {
      const exchange = addHostports(this.#requireNftables(), request)
      return { exchange, ahead: exchange.ahead }
    } catch (error) {
      if (this.#nftables && isCniError(error)) throw error
      const isLacking = !request.parts.every(({ family }) => this.#canMap(family))
      if (isLacking && backend === undefined) return this.#addByIptables(request, options)
      if (isCniError(error)) throw error
      const needs = isLacking ? `: ${NEEDS}` : ""
      throw new CniError(Code.Internal, `Cannot map ports by nftables${needs}`, { cause: error })
    }
  }

  #addByIptables(request: Request, options: IptablesOptions): Mapped {
    return { exchange: undefined, ahead: addIptablesHostports(this.#nftables, request, options) }
  }

  #requireNftables(): NetlinkSocket {
    if (this.#nftables) return this.#nftables
    throw new CniError(Code.Internal, "Cannot map ports by nftables: the kernel has no nf_tables", {
      details: 'load the module "nf_tables", or set "backend" to "iptables"',
    })
  }

  #canMap(family: Part["family"]): boolean {
    return this.#nftables !== undefined && canMapPorts(this.#nftables, family)
  }

  /** Undoes `add`. */
  takeBack(request: Request, { exchange }: Mapped): void {
    if (this.#nftables && exchange) takeBackHostports(this.#tools(this.#nftables), request, exchange)
    else removeIptablesHostports(this.#nftables, request.owner)
  }

  /**
   * Checks that all is as `add` has left it, by the backend that ADD takes or, since containers outlive changes of
   * configuration, by the other one. Throws `CniError` that tells what was expected and what was found.
   */
  check(request: Request, { backend, ...options }: Choice): void {
    const byNftables = () => checkHostports(this.#requireNftables(), request)
    const byIptables = () => checkIptablesHostports(this.#nftables, request, options)
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
   * Removes the mappings of an attachment, found by its names alone, and forgets the UDP flows that went through them;
   * needs no program for it, except for iptables' legacy tables. Goes through all steps whatever fails, and then throws
   * `CniError`. Nothing there is success. The last thing to be done here.
   */
  remove(owner: Owner, hints: Hints): void {
    const { mappings, addresses } = hints
    const filter = this.#filter
    const failures = new Failures()
    const removed: Found[] = []
    failures.attempt("remove the port mappings of iptables", () => {
      if (isTableInUse(filter, "nat")) removeIptablesHostports(filter?.socket, owner)
    })
    // After those of iptables, which may be all that still needs `route_localnet`.
    failures.attempt("remove the port mappings", () => {
      if (filter?.hasTable(HOSTPORTS_TABLE))
        removed.push(...removeHostports(this.#tools(filter.socket), owner, mappings))
    })
    failures.attempt("remove the other suite's port mappings", () => {
      if (filter?.hasTable(UPSTREAM_TABLE)) removeUpstreamHostports(filter.socket, owner.containerId, addresses)
    })
    failures.attempt("forget the UDP flows", () => this.#forget([...removed, ...mapped(hints)]))
    for (const socket of this.#sockets) socket.leave() // nothing is left to do here that the waiting could overlap with
    failures.throwIfAny()
  }

  /** Removes the mappings of all attachments to this network but the valid ones, like `remove`. */
  gc(network: string, valid: readonly Owner[]): void {
    const nftables = this.#nftables
    const failures = new Failures()
    failures.attempt("remove stale port mappings of iptables", () => gcIptablesHostports(nftables, network, valid))
    if (nftables) {
      failures.attempt("remove stale port mappings", () =>
        this.#forget(gcHostports(this.#tools(nftables), network, valid)),
      )
    }
    failures.throwIfAny()
  }

  #tools(socket: NetlinkSocket): Tools {
    return {
      socket,
      open: () => this.#openSocket(),
      isLocalnetNeeded: () => isTableInUse(this.#filter, "nat") && hasIptablesHostports(socket),
    }
  }

  /** Lets the kernel judge anew the UDP flows that it has judged before these mappings were there. */
  forgetOlderFlows(parts: readonly Part[], { ahead }: Mapped): void {
    this.#withConntrack((socket) => forgetOlderFlows(socket, parts, ahead))
  }

  #forget(gone: readonly Found[]): void {
    this.#withConntrack((socket) => forgetFlowsThrough(socket, gone))
  }

  /** A kernel without connection tracking over netlink tracks nothing that could be forgotten, or nobody can make it. */
  #withConntrack(forget: (socket: NetlinkSocket) => void): void {
    try {
      forget(this.#nftables ?? this.#openSocket())
    } catch (error) {
      if (!isErrno(error, "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT", "EAFNOSUPPORT")) throw error
    }
  }

  /** Throws code 50 with the reason when this host cannot map ports, for STATUS. Runs no program. */
  requireUsable({ backend, conditions }: Choice & Pick<Request, "conditions">): void {
    const needsNft = conditions.ip.length + conditions.ip6.length > 0
    const canNftables = backend !== "iptables" && this.#canMap("ip") && (!needsNft || findNft() !== undefined)
    if (canNftables || (backend !== "nftables" && findPrograms(AF_INET, chooseVariant(this.#nftables)))) return
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

const NEEDS = "the kernel needs nf_tables with NAT and the expression fib"

/** The mappings as they must have been, for flows that nothing else tells of. */
function mapped({ mappings, addresses }: Hints): Found[] {
  return addresses.flatMap((ip) =>
    mappingsFor(ip.length === 4 ? "ip" : "ip6", mappings).map((mapping) => ({
      ...mapping,
      ip,
      port: mapping.containerPort,
    })),
  )
}
