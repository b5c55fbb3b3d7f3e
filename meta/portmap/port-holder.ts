import { waitUntil } from "../../pkg/ip/mod.ts"
import { listLinks, RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/** The kernel deletes a namespace with its interfaces some time after the last that used it. */
const CLEANUP_DEADLINE_MS = 2000

/**
 * Whether the container that holds a port is provably gone: nothing is left at the path of its namespace, and no interface
 * of the host has its name as alias, as those of our plugins have; one that has it may take two seconds to go. The device of
 * bandwidth tells nothing, since it stays until DEL or GC. A doubt counts as no.
 */
export function isHolderGone(comment: string | undefined, netns: string | undefined): boolean {
  if (comment === undefined || netns === undefined || !isNothingAt(netns)) return false
  using host = RouteSocket.open()
  // Of other kinds are the device of bandwidth, and hardware that a container has renamed before the kernel put it here.
  const isUnlinked = () =>
    !listLinks(host).some(({ kind, attributes }) => kind === "veth" && attributes.alias === comment)
  if (isUnlinked()) return true
  using events = RouteSocket.subscribe(RouteGroup.Link)
  return waitUntil(events, CLEANUP_DEADLINE_MS, isUnlinked)
}

function isNothingAt(path: string): boolean {
  try {
    using found = Netns.find(path)
    return found === undefined
  } catch {
    return false // something else lies there
  }
}

/** The error for a port that another container holds. */
export function portTaken(wanted: { port: string; target: string; owner: string }, holder: Holder): CniError {
  const { port, target, owner } = wanted
  return new CniError(
    Code.Internal,
    `Cannot map host port ${port} to ${target} for ${owner}: it is mapped to ${holder.target} for ${holder.name ?? "an unknown attachment"}`,
    {
      details:
        "the names are network/container/interface; run DEL for that attachment first, or choose another hostPort",
    },
  )
}

/** Where a port of the host leads, and for whom; undefined where nothing says it. */
export interface Holder {
  target: string | undefined
  name: string | undefined
}
