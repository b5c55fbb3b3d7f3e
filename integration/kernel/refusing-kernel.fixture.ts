import { NetlinkSocket, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { acknowledge, encodeMessage, KernelTransport, readMessages } from "../../pkg/netlink/testing.ts"

export const NETLINK_ROUTE = 0

/** The errno of refused requests, by message type. A list has the errno of each of the next requests of that type. */
export type Refusals = Map<number, number | number[]>

/** A connection to rtnetlink that refuses some requests itself. The kernel does not receive these requests. */
export class RefusingTransport extends KernelTransport {
  readonly #refusals: Refusals
  readonly #refused: Uint8Array[] = []

  constructor(refusals: Refusals, groups: number) {
    super(NETLINK_ROUTE, groups)
    this.#refusals = refusals
  }

  override send(datagram: Uint8Array): void {
    const passed = readMessages(datagram).filter((message) => {
      const refusal = this.#refusals.get(message.type)
      const errno = Array.isArray(refusal) ? refusal.shift() : refusal
      if (errno !== undefined) this.#refused.push(acknowledge(message, errno))
      return errno === undefined
    })
    const messages = passed.map(({ type, flags, sequence, payload }) => encodeMessage(type, flags, sequence, payload))
    if (messages.length > 0) super.send(Buffer.concat(messages))
  }

  override receive(widen?: boolean): Uint8Array {
    return this.#refused.shift() ?? super.receive(widen)
  }
}

export function openRefusingSocket(refusals: Refusals): RouteSocket {
  return new NetlinkSocket(NETLINK_ROUTE, 0, new RefusingTransport(refusals, 0)) as RouteSocket
}
