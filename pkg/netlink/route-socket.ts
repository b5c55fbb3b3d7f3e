import { unlessErrno } from "../libc/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { Budget } from "./budget.ts"
import { i32, struct, u32 } from "./integers.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h>, <linux/net_namespace.h> */
const RTM_NEWNSID = 88
const RTM_GETNSID = 90
const NETNSA_NSID_NOT_ASSIGNED = -1

/** Multicast groups as bits: `RTMGRP_*`, <linux/rtnetlink.h>. */
export const RouteGroup = { Link: 1, Ipv4Address: 0x10, Ipv4Route: 0x40, Ipv6Address: 0x100, Ipv6Route: 0x400 } as const

/**
 * An rtnetlink socket for links, addresses, routes and rules of the network namespace in which it was opened.
 *
 * @example
 * using host = RouteSocket.open()
 * addLink(host, { name: "cni0", kind: "bridge" })
 */
export class RouteSocket extends NetlinkSocket {
  /**
   * Opens a socket in the thread's namespace. A socket that lists objects which a container can multiply needs a
   * budget: see `Netns.openRoute`, `forEachNsid`. Throws `SyscallError`.
   */
  static open(budget?: Budget): RouteSocket {
    return new RouteSocket(NETLINK_ROUTE, 0, undefined, budget)
  }

  /** Opens a socket that also receives the events of multicast groups, for `nextEvents`. */
  static subscribe(groups: number): RouteSocket {
    return new RouteSocket(NETLINK_ROUTE, groups)
  }
}

/** struct rtgenmsg, padded, and the attributes after it; <linux/net_namespace.h>. */
const nsidPayload = payloadOf(struct({ family: u32 }), attrs({ nsid: [1, i32], fd: [3, u32] }))

/**
 * Returns the nsid that the socket's namespace has for another namespace, like `ip netns list-id`. `fd` is a descriptor
 * of the other namespace. The `linkNetnsId` of a link is the nsid of its peer's namespace. Returns undefined if there
 * is no nsid, which means that no link of the socket's namespace has a peer in the other one. Throws `EINVAL` if `fd`
 * is not a namespace.
 */
export function findNsid(route: NetlinkSocket, fd: number): number | undefined {
  const request = { type: RTM_GETNSID, what: `find the nsid of namespace descriptor ${fd}` }
  return route.get({ ...request, payload: nsidPayload.encode({}, { fd }) }, (answer) => {
    const { nsid = NETNSA_NSID_NOT_ASSIGNED } = nsidPayload.decode(answer.payload).attributes
    return nsid === NETNSA_NSID_NOT_ASSIGNED ? undefined : nsid
  })
}

/** Assigns an nsid to the namespace of `fd` if it has none, like `ip netns set NAME auto`. Throws `NetlinkError`. */
export function assignNsid(route: NetlinkSocket, fd: number): void {
  const what = `assign an nsid to namespace descriptor ${fd}`
  const payload = nsidPayload.encode({}, { fd, nsid: NETNSA_NSID_NOT_ASSIGNED })
  unlessErrno(() => route.execute({ type: RTM_NEWNSID, what, payload }), "EEXIST")
}

/**
 * Returns the nsids that the socket's namespace has for other namespaces, like `ip netns list-id`. A namespace gets an
 * nsid when a link is moved into it or has its peer in it, and keeps the nsid for its lifetime.
 */
export function listNsids(route: NetlinkSocket): number[] {
  const payload = nsidPayload.encode({}, {})
  return route.dump({ type: RTM_GETNSID, what: "list nsids", payload }, (message) => {
    return nsidPayload.decode(message.payload).attributes.nsid
  })
}

/**
 * Calls `work` for each namespace that has an nsid in the thread's namespace. The socket is in the thread's namespace;
 * its lists may use a share of the remaining time. Throws `NetlinkError`, `ETIME` if the time ends before the last
 * namespace.
 */
export function forEachNsid(work: (host: RouteSocket, nsid: number) => void): void {
  using host = RouteSocket.open()
  const budget = new Budget()
  for (const nsid of listNsids(host)) {
    budget.step("list the links of all containers")
    budget.share((part) => {
      using own = RouteSocket.open(part) // a new socket: on the old one, an abandoned list would block the next list
      work(own, nsid)
    })
  }
}
