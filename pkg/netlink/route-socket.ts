import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"

/** Multicast groups as bits, `RTMGRP_*`, <linux/rtnetlink.h>. */
export const RouteGroup = { Link: 1, Ipv4Address: 0x10, Ipv6Address: 0x100 } as const

/**
 * rtnetlink in the network namespace in which it was opened: links, addresses, routes, rules, neighbours.
 *
 * @example
 * using host = RouteSocket.open()
 * addLink(host, { name: "cni0", kind: "bridge" })
 */
export class RouteSocket extends NetlinkSocket {
  /** Opens a socket in the thread's namespace. Throws `SyscallError`. */
  static open(): RouteSocket {
    return new RouteSocket(NETLINK_ROUTE)
  }

  /** Opens a socket that also hears of changes, for `nextEvents`. */
  static subscribe(groups: number): RouteSocket {
    return new RouteSocket(NETLINK_ROUTE, groups)
  }
}
