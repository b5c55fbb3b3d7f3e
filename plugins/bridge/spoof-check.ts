import type { Attaching } from "../../pkg/attachment/mod.ts"
import type { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import {
  addSpoofCheck,
  checkSpoofCheck,
  deleteSpoofCheck,
  deleteUpstreamSpoofCheck,
  type GuardedPort,
  gcSpoofCheck,
  type PacketFilter,
  requireSpoofCheck,
} from "../../pkg/nftables/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

/** Has a port drop frames from another MAC than the container's own. Throws `CniError`. */
export function guardPort({ owner, filter, undo }: Attaching, port: GuardedPort): void {
  const spoofCheck = new SpoofCheck(filter)
  spoofCheck.add(owner, port)
  undo.defer("check source MACs", () => spoofCheck.remove(owner))
}

/** The check that a container's frames come from its own MAC, in the namespace of the packet filter. */
export class SpoofCheck {
  /** Undefined where the kernel has no nf_tables. */
  readonly #filter: PacketFilter | undefined

  constructor(filter: PacketFilter | undefined) {
    this.#filter = filter
  }

  /** Throws `CniError`, and then nothing has changed. */
  add(owner: Owner, port: GuardedPort): void {
    this.#filter?.forgetTables()
    addSpoofCheck(this.#require(), owner, port)
  }

  /** Throws `CniError` that tells what was expected and what was found. */
  check(owner: Owner, port: GuardedPort): void {
    checkSpoofCheck(this.#require(), owner, port)
  }

  #require(): NetlinkSocket {
    if (this.#filter) return this.#filter.socket
    throw new CniError(Code.Internal, "Cannot check the source MACs of containers: the kernel has no nf_tables")
  }

  /** Ends the check of an attachment, ours and the Go suite's, found by its names alone. Throws `CniError`. */
  remove(owner: Owner): void {
    const socket = this.#filter?.socket
    if (!socket) return
    const failures = new Failures()
    failures.attempt("end the spoof check", () => deleteSpoofCheck(socket, owner))
    failures.attempt("end the other suite's spoof check", () => deleteUpstreamSpoofCheck(socket, owner))
    failures.throwIfAny()
  }

  /** Ends the check of all attachments to this network but the valid ones. Throws `CniError`. */
  gc(network: string, valid: readonly Owner[]): void {
    if (this.#filter) gcSpoofCheck(this.#filter.socket, network, valid)
  }

  /** Throws code 50 with the reason when this host cannot check MACs, for STATUS. */
  requireUsable(): void {
    requireSpoofCheck(this.#filter?.socket)
  }
}
