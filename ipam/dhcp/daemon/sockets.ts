import {
  type Fd,
  FileDescriptor,
  isErrno,
  MSG_DONTWAIT,
  NetlinkSender,
  openNetlink,
  PacketSocket,
  receive,
} from "../../../pkg/libc/mod.ts"
import {
  IFF_RUNNING,
  type Ifindex,
  linkHeader,
  NETLINK_ROUTE,
  RouteGroup,
  RTM_NEWLINK,
  u16,
} from "../../../pkg/netlink/mod.ts"
import { AF_INET } from "../../../pkg/types/mod.ts"
import { type Heard, socketFilter } from "../protocol/filter.ts"
import type { ClientConfig } from "../protocol/types.ts"

/**
 * The maximum number of router advertisements that are read after each sent frame, so that a flood of them does not
 * delay other leases. They have their own socket, so that they do not fill the queue for the servers' answers.
 */
const ADVERTISEMENTS_MAX = 64

/** Returns the kinds of frames that a client receives, the kind with the server's answers first. */
function heardBy({ family, probeMs }: ClientConfig): readonly Heard[] {
  if (family !== AF_INET) return ["dhcpv6", "router"]
  return probeMs > 0 ? ["dhcp and arp"] : ["dhcp"]
}

/** The packet sockets of one link. `send` opens them. */
export class Packets {
  readonly #sockets = new Map<Heard, PacketSocket>()
  #advertisementsLeft = 0

  get descriptors(): Fd[] {
    const read = [...this.#sockets].filter(([heard]) => heard !== "router" || this.#advertisementsLeft > 0)
    return read.map(([, { fd }]) => fd)
  }

  /**
   * Sends a frame on a link of the thread's namespace. Returns false, without sending, if the link is down or was down
   * since the last frame. Throws `SyscallError`.
   */
  send(index: Ifindex, config: ClientConfig, frame: Uint8Array): boolean {
    for (const heard of heardBy(config)) {
      if (!this.#sockets.has(heard)) this.#sockets.set(heard, new PacketSocket(index, socketFilter(heard)))
    }
    this.#advertisementsLeft = ADVERTISEMENTS_MAX
    try {
      this.#sockets.get(heardBy(config)[0] ?? "dhcp")?.send(frame)
    } catch (error) {
      if (isErrno(error, "ENETDOWN")) return false
      if (!isErrno(error, "ENOBUFS", "ENXIO", "EAGAIN", "EMSGSIZE")) throw error // these errors lose one frame
    }
    return true
  }

  /** Returns the next frame for a client, servers' answers first. Throws `ENETDOWN` once after the link went down. */
  receive(config: ClientConfig, buffer: Uint8Array): Uint8Array | undefined {
    for (const heard of heardBy(config)) {
      if (heard === "router" && this.#advertisementsLeft <= 0) continue
      const frame = this.#sockets.get(heard)?.receive(buffer)
      if (frame && heard === "router") this.#advertisementsLeft--
      if (frame) return frame
    }
    return undefined
  }

  close(): void {
    for (const socket of this.#sockets.values()) socket[Symbol.dispose]()
    this.#sockets.clear()
  }
}

/** The size of struct nlmsghdr, <linux/netlink.h>. */
const HEADER = 16

/** A socket for the kernel's events about the links and IPv6 addresses of the thread's namespace. */
export class LinkEvents extends FileDescriptor {
  readonly #sender = new NetlinkSender()

  /** Subscribes to the events. Throws `SyscallError`. */
  static subscribe(): LinkEvents {
    return new LinkEvents(openNetlink(NETLINK_ROUTE, RouteGroup.Link | RouteGroup.Ipv6Address))
  }

  /** Reads the pending events. Returns whether one of them reports the link's carrier, or whether events were lost. */
  read(into: Uint8Array, link: Ifindex): boolean {
    let hasCarrier = false
    try {
      for (;;) {
        const length = receive(this.fd, into, MSG_DONTWAIT, this.#sender)
        if (this.#sender.isKernel && reportsCarrier(into.subarray(0, length), link)) hasCarrier = true
      }
    } catch (error) {
      if (isErrno(error, "ENOBUFS")) return true
      if (!isErrno(error, "EAGAIN")) throw error
      return hasCarrier
    }
  }
}

/**
 * Reports whether an event says that a link has carrier and passes frames. The event of `ip link set up` is ignored,
 * because its `IFF_RUNNING` may be from before the link was set down; that event lists changed flags. Each event has
 * its own datagram.
 */
export function reportsCarrier(event: Uint8Array, link: Ifindex): boolean {
  const end = HEADER + linkHeader.size
  if (event.length < end || u16.get(event, 4) !== RTM_NEWLINK) return false
  const { index, flags, change } = linkHeader.decode(event.subarray(HEADER, end))
  return index === link && change === 0 && (flags & IFF_RUNNING) !== 0
}
