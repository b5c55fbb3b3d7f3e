import { isErrno } from "../libc/mod.ts"
import { NETLINK_NETFILTER, NetlinkSocket } from "../netlink/mod.ts"
import { getGeneration } from "./transaction.ts"

/** What this room needs of a netlink socket. */
export type Netfilter = Pick<NetlinkSocket, "fd" | "get" | "dump" | "transact">

/** Opens a socket to the packet filter of the thread's namespace. Throws `EPROTONOSUPPORT` when the kernel has none. */
export function openNetfilter(): NetlinkSocket {
  return new NetlinkSocket(NETLINK_NETFILTER)
}

/** Whether the kernel has nf_tables. Throws `EPERM` without CAP_NET_ADMIN. */
export function hasNftables(socket: Pick<Netfilter, "get">): boolean {
  try {
    getGeneration(socket)
    return true
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT")) return false // no such subsystem of nfnetlink
    throw error
  }
}
