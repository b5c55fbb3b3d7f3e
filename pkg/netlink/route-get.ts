import { isErrno } from "../libc/mod.ts"
import { AF_INET, familyOf, formatIp } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { bytes } from "./codec.ts"
import { u8, u16be, u32 } from "./integers.ts"
import type { Ifindex } from "./links.ts"
import { NetlinkError } from "./message.ts"
import { type ListedRoute, RTM_GETROUTE, readRoute, routeHeader } from "./routes.ts"
import type { NetlinkSocket } from "./socket.ts"

/**
 * `RTM_F_LOOKUP_TABLE`: asks for the table of an IPv4 route. For IPv6 the kernel always returns the table, and refuses
 * the flag.
 */
const RTM_F_LOOKUP_TABLE = 0x1000

const questionPayload = payloadOf(
  routeHeader,
  attrs({
    dst: [1, bytes],
    src: [2, bytes],
    input: [3, u32], // RTA_IIF
    mark: [16, u32],
    protocol: [27, u8], // RTA_IP_PROTO
    destinationPort: [29, u16be], // RTA_DPORT
  }),
)

/** A packet whose route is looked up. A routing rule with a selector for a missing property does not match. */
export interface RouteQuestion {
  readonly dst: Uint8Array
  readonly src?: Uint8Array | undefined
  /** The interface on which the packet arrives. If undefined, the host sends it, and `src` must be the host's. */
  readonly input?: Ifindex | undefined
  readonly mark?: number | undefined
  /** `IPPROTO_TCP`, `IPPROTO_UDP`, `IPPROTO_ICMP` or `IPPROTO_ICMPV6`; the kernel refuses all others. */
  readonly protocol?: number | undefined
  readonly destinationPort?: number | undefined
}

/** An error that means that the kernel does not route the packet. It is a result, not a failure of the query. */
export type RouteRefusal = (typeof refusals)[number]

/**
 * ENETUNREACH: no route. EHOSTUNREACH: a route of type unreachable, or an interface that does not forward. EACCES: a
 * route of type prohibit. EINVAL: a route of type blackhole, or an invalid source or destination. EXDEV, EINVAL or
 * EHOSTUNREACH, depending on the kernel: rejected by rp_filter.
 */
const refusals = ["ENETUNREACH", "EHOSTUNREACH", "EACCES", "EINVAL", "EXDEV", "ESRCH"] as const

/**
 * Asks the kernel for the route of a packet, like `ip route get DST from SRC iif DEV mark MARK ipproto PROTOCOL dport
 * PORT`. The kernel evaluates all rules and tables. Returns the route with its table, or why no route exists.
 * Throws `NetlinkError`.
 */
export function askRoute(
  route: Pick<NetlinkSocket, "get">,
  { dst, src, input, mark, protocol, destinationPort }: RouteQuestion,
): ListedRoute | RouteRefusal {
  const bits = 8 * dst.length
  const family = familyOf(dst)
  const flags = family === AF_INET ? RTM_F_LOOKUP_TABLE : 0
  const header = { family, dstPrefix: bits, srcPrefix: src ? bits : 0, flags }
  const payload = questionPayload.encode(header, { dst, src, input, mark, protocol, destinationPort })
  const request = {
    type: RTM_GETROUTE,
    get what() {
      return `find the route to ${formatIp(dst)}`
    },
    payload,
  }
  try {
    return route.get(request, readRoute)
  } catch (error) {
    // An error with the kernel's explanation is a refusal of the query itself.
    const isAnswer = error instanceof NetlinkError && error.extack === undefined
    const refusal = isAnswer ? refusals.find((each) => isErrno(error, each)) : undefined
    if (refusal !== undefined) return refusal
    throw error
  }
}
