import { monotonicMs } from "../engine/mod.ts"
import {
  findLink,
  IFA_F_DADFAILED,
  IFA_F_TENTATIVE,
  type Ifindex,
  type Link,
  listAddresses,
  type Message,
  type NetlinkSocket,
  OperState,
  RouteGroup,
  RouteSocket,
} from "../netlink/mod.ts"
import { AF_INET6, CniError, Code, formatIp } from "../types/mod.ts"

/**
 * Waits until a condition on the links or addresses of a namespace holds. Calls `holds` at once, after every event for
 * which `concerns` is true, and whenever the kernel has dropped events. `events` must have been subscribed before, so
 * that no change is missed. Returns false after `deadlineMs` milliseconds.
 */
export function waitUntil(
  events: RouteSocket,
  deadlineMs: number,
  holds: () => boolean,
  concerns: (event: Message) => boolean = () => true,
): boolean {
  const end = monotonicMs() + deadlineMs
  while (!holds()) {
    for (let isOther = true; isOther; ) {
      const left = end - monotonicMs()
      if (left <= 0) return false
      const heard = events.nextEvents(left) ?? []
      isOther = heard.length > 0 && !heard.some(concerns)
    }
  }
  return true
}

/** Reports whether a link passes traffic: its RFC 2863 state is "up", or "unknown" if its driver never sets a state. */
export function isOperational(link: Link): boolean {
  const state = link.attributes.operState ?? OperState.Unknown
  return state === OperState.Up || (state === OperState.Unknown && (link.flags & 1) !== 0)
}

/** The Go plugins' wait for a pair with both ends up, which the kernel may make operational a little later. */
const CARRIER_DEADLINE_MS = 2550

/**
 * Waits until a link of the thread's namespace passes traffic, and returns it in its new state. Makes no request if the
 * link already passes traffic. At the deadline throws `CniError` with code 11, because a later attempt may succeed.
 */
export function waitOperational(route: NetlinkSocket, link: Link): Link {
  if (isOperational(link)) return link
  using events = RouteSocket.subscribe(RouteGroup.Link)
  let latest: Link | undefined = link
  const up = waitUntil(events, CARRIER_DEADLINE_MS, () => {
    latest = findLink(route, link.index)
    return latest === undefined || isOperational(latest)
  })
  if (up && latest) return latest
  const state = Object.entries(OperState).find(([, value]) => value === latest?.attributes.operState)?.[0]
  throw new CniError(
    Code.TryAgainLater,
    `Cannot bring up "${link.name}" within ${CARRIER_DEADLINE_MS} ms: ${latest ? `its state is ${state ?? "unknown"}` : "it was deleted"}`,
  )
}

/** The time that the Go plugins wait for duplicate address detection. */
const DETECTION_DEADLINE_MS = 5000

/**
 * Waits until duplicate address detection has finished for every IPv6 address of a link. Throws `CniError`: code 999 if
 * another host has an address, code 11 if the detection takes too long. `events` must be subscribed to changes of IPv6
 * addresses.
 */
export function waitForDetection(
  route: NetlinkSocket,
  link: { index: Ifindex; name: string },
  events: RouteSocket,
): void {
  let tentative: string[] = []
  const decided = waitUntil(events, DETECTION_DEADLINE_MS, () => {
    const addresses = listAddresses(route, link, AF_INET6)
    const taken = addresses.find(({ flags }) => (flags & IFA_F_DADFAILED) !== 0)
    if (taken) {
      throw new CniError(Code.Internal, `Cannot use ${formatIp(taken.ip)} on "${link.name}": another host has it`)
    }
    tentative = addresses.filter(({ flags }) => (flags & IFA_F_TENTATIVE) !== 0).map(({ ip }) => formatIp(ip))
    return tentative.length === 0
  })
  if (decided) return
  const reason = `duplicate address detection did not finish within ${DETECTION_DEADLINE_MS} ms`
  throw new CniError(Code.TryAgainLater, `Cannot use ${tentative.join(", ")} on "${link.name}": ${reason}`)
}
