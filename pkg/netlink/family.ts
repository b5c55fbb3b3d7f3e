import { isErrno, unlessErrno } from "../libc/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import type { Request } from "./channel.ts"
import type { Message } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** The reason in error messages on a kernel without IPv6. */
export const noIpv6 = "the kernel has no IPv6: it was built without it, or started with ipv6.disable=1"

/** Reports whether the kernel lacks a family: its request (`EOPNOTSUPP`) or its rules (`EAFNOSUPPORT`). */
export function isNoFamily(error: unknown): boolean {
  return isErrno(error, ...NO_FAMILY)
}

const NO_FAMILY = ["EOPNOTSUPP", "EAFNOSUPPORT"] as const

function isInternet(family: number | undefined): boolean {
  return family === AF_INET || family === AF_INET6
}

/**
 * Lists one address family, or both, and returns the results of `pick`. Returns an empty list for a family that the
 * kernel lacks: such a kernel refuses the request, or answers with entries of other families. Throws `NetlinkError`.
 */
export function dumpFamily<T>(
  route: NetlinkSocket,
  family: Family | undefined,
  request: Request,
  pick: (message: Message) => T | undefined,
): T[] {
  // struct rtmsg, ifaddrmsg, ndmsg and fib_rule_hdr begin with the family. Multicast routes have other family numbers.
  const pickOwn = (message: Message) => {
    const found = message.payload[0]
    return (family === undefined ? isInternet(found) : found === family) ? pick(message) : undefined
  }
  if (family === undefined) return route.dump(request, pickOwn)
  return unlessErrno(() => route.dump(request, pickOwn), ...NO_FAMILY) ?? []
}
