import { isErrno, unlessErrno } from "../libc/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import type { Request } from "./channel.ts"
import type { Message } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** The reason in a message for a kernel without IPv6. */
export const noIpv6 = "the kernel has no IPv6: it was built without it, or started with ipv6.disable=1"

/**
 * Whether an error means that the kernel lacks an address family: it lacks the request (`EOPNOTSUPP`) or the family of
 * rules (`EAFNOSUPPORT`).
 */
export function isNoFamily(error: unknown): boolean {
  return isErrno(error, ...NO_FAMILY)
}

const NO_FAMILY = ["EOPNOTSUPP", "EAFNOSUPPORT"] as const

function isInternet(family: number | undefined): boolean {
  return family === AF_INET || family === AF_INET6
}

/**
 * Lists one address family, or both, and keeps the results of `pick`. The list is empty for a family that the kernel
 * lacks: the kernel refuses it, or answers with the lists of the other families. Throws `NetlinkError`.
 */
export function dumpFamily<T>(
  route: NetlinkSocket,
  family: Family | undefined,
  request: Request,
  pick: (message: Message) => T | undefined,
): T[] {
  // struct rtmsg, ifaddrmsg, ndmsg and fib_rule_hdr begin with the family. Multicast routes have other families.
  const pickOwn = (message: Message) => {
    const found = message.payload[0]
    return (family === undefined ? isInternet(found) : found === family) ? pick(message) : undefined
  }
  if (family === undefined) return route.dump(request, pickOwn)
  return unlessErrno(() => route.dump(request, pickOwn), ...NO_FAMILY) ?? []
}
