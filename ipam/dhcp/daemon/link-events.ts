import { FileDescriptor, isErrno, MSG_DONTWAIT, NetlinkSender, openNetlink, receive } from "../../../pkg/libc/mod.ts"
import {
  IFF_RUNNING,
  type Ifindex,
  linkHeader,
  NETLINK_ROUTE,
  RouteGroup,
  RTM_NEWLINK,
  u16,
} from "../../../pkg/netlink/mod.ts"

/** Of struct nlmsghdr, <linux/netlink.h>. */
const HEADER = 16

/** What the kernel reports of the links and IPv6 addresses of the thread's namespace. */
export class LinkEvents extends FileDescriptor {
  readonly #sender = new NetlinkSender()

  /** Opens a socket that hears of changes. Throws `SyscallError`. */
  static subscribe(): LinkEvents {
    return new LinkEvents(openNetlink(NETLINK_ROUTE, RouteGroup.Link | RouteGroup.Ipv6Address))
  }

  /** Reads the events that have come. True when one of them is a carrier's, or may have been and was dropped. */
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
 * Whether an event says that the kernel has dealt with a link's carrier, and frames pass. That of `ip link set up` may say "running"
 * too, from before the link was taken down; but it names the flags that it changes. The kernel sends each event in a datagram of its own.
 */
export function reportsCarrier(event: Uint8Array, link: Ifindex): boolean {
  const end = HEADER + linkHeader.size
  if (event.length < end || u16.get(event, 4) !== RTM_NEWLINK) return false
  const { index, flags, change } = linkHeader.decode(event.subarray(HEADER, end))
  return index === link && change === 0 && (flags & IFF_RUNNING) !== 0
}
