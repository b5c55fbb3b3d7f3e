import { NetlinkSocket, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { acknowledge, KernelTransport, readMessages } from "../../pkg/netlink/testing.ts"

export const NETLINK_ROUTE = 0

/** The errno for requests that the kernel is to refuse, by their type; a list has one for each of the next requests. */
export type Refusals = Map<number, number | number[]>

/** rtnetlink, but for requests that are refused before the kernel sees them. */
export class RefusingTransport extends KernelTransport {
  readonly #refusals: Refusals
  readonly #refused: Uint8Array[] = []

  constructor(refusals: Refusals, groups: number) {
    super(NETLINK_ROUTE, groups)
    this.#refusals = refusals
  }

  override send(datagram: Uint8Array): void {
    const [first] = readMessages(datagram)
    const refusal = first && this.#refusals.get(first.type)
    const errno = Array.isArray(refusal) ? refusal.shift() : refusal
    if (first && errno !== undefined) this.#refused.push(acknowledge(first, errno))
    else super.send(datagram)
  }

  override receive(): Uint8Array {
    return this.#refused.shift() ?? super.receive()
  }
}

/** A socket of that kernel in the thread's namespace. */
export function openRefusingSocket(refusals: Refusals): RouteSocket {
  return new NetlinkSocket(NETLINK_ROUTE, 0, new RefusingTransport(refusals, 0)) as RouteSocket
}
