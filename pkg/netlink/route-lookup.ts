import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { showIp } from "./addresses.ts"
import { attrs } from "./attrs.ts"
import { bytes, concat, u32 } from "./codec.ts"
import { NetlinkError } from "./error.ts"
import type { Ifindex } from "./links.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTM_GETROUTE = 26
/** Bytes of struct rtmsg. */
const HEADER_SIZE = 12

const routeAttributes = attrs({ dst: [1, bytes], index: [4, u32] }) // RTA_DST, RTA_OIF

/**
 * The link by which packets to an address leave, like `ip route get IP`: one question, however many routes there are.
 * Undefined when there is no route. Throws `NetlinkError`.
 */
export function linkTowards(route: Pick<NetlinkSocket, "get">, ip: Uint8Array): Ifindex | undefined {
  const header = new Uint8Array(HEADER_SIZE)
  header[0] = ip.length === 4 ? AF_INET : AF_INET6
  header[1] = 8 * ip.length
  const payload = concat([header, routeAttributes.encode({ dst: ip })])
  try {
    const answer = route.get({ type: RTM_GETROUTE, what: `find the route to ${showIp(ip)}`, payload })
    return routeAttributes.decode(answer.payload.subarray(HEADER_SIZE)).index as Ifindex | undefined
  } catch (error) {
    if (error instanceof NetlinkError && ["ENETUNREACH", "EHOSTUNREACH", "ESRCH"].includes(error.errno))
      return undefined
    throw error
  }
}
