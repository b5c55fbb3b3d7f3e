import { sleep } from "../../pkg/libc/mod.ts"
import {
  type Address,
  askRoute,
  IFA_F_TENTATIVE,
  type ListedRoute,
  type RouteRefusal,
  type RouteSocket,
  RTN_LOCAL,
} from "../../pkg/netlink/mod.ts"
import { sameBytes } from "../../pkg/types/mod.ts"

/** The remaining wait for local routes to appear, in milliseconds. All requests of a run share it. */
export interface Wait {
  leftMs: number
}

export const newWait = (): Wait => ({ leftMs: 1000 })

const PAUSE_MS = 20

/**
 * Returns the kernel's route to an address, like `ip route get`. The kernel adds the local route of an IPv6 address
 * after the address itself, in a work queue (`addrconf_dad_work`). For an address of `own` without a local route,
 * repeats the request until the wait is over.
 */
export function askOwnRoute(
  route: RouteSocket,
  dst: Uint8Array,
  own: readonly Address[],
  wait: Wait,
): ListedRoute | RouteRefusal {
  let answer = askRoute(route, { dst })
  const isOwn = () => own.some(({ ip, flags }) => !(flags & IFA_F_TENTATIVE) && sameBytes(ip, dst))
  if (dst.length === 4 || isLocal(answer) || !isOwn()) return answer
  for (; wait.leftMs > 0 && !isLocal(answer); wait.leftMs -= PAUSE_MS) {
    sleep(PAUSE_MS)
    answer = askRoute(route, { dst })
  }
  return answer
}

const isLocal = (answer: ListedRoute | RouteRefusal) => typeof answer === "object" && answer.type === RTN_LOCAL
