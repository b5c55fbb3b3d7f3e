import { attrs } from "./attrs.ts"
import { concat, i32, u32 } from "./codec.ts"
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

/** <linux/rtnetlink.h> */
const RTM_GETNSID = 90

/** struct rtgenmsg, padded: the family, which does not matter here. */
const generalHeader = new Uint8Array(4)

/** <linux/net_namespace.h> */
const namespaceAttributes = attrs({
  number: [1, i32], // NETNSA_NSID, -1 for none
  fd: [3, u32],
})

/**
 * The number that the socket's namespace has for another one, given by a descriptor of it, as `ip netns list` shows it:
 * what `linkNetnsId` of a link means, which says where the link's other end is. Undefined when it has none, and then no
 * link of the socket's namespace ends there. Throws `EINVAL` for a descriptor of something else.
 */
export function namespaceNumber(route: NetlinkSocket, fd: number): number | undefined {
  const payload = concat([generalHeader, namespaceAttributes.encode({ fd })])
  const answer = route.get({ type: RTM_GETNSID, what: `find the number of namespace descriptor ${fd}`, payload })
  const { number } = namespaceAttributes.decode(answer.payload.subarray(generalHeader.length))
  return number === undefined || number < 0 ? undefined : number
}
