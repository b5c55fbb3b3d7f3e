import { findLink, listAddresses, RouteSocket } from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { formatCidr } from "../types/mod.ts"

/**
 * The addresses that a container has on other interfaces than this one, each as "10.1.0.2/32". None when the container's
 * namespace is gone, and with it all interfaces.
 */
export function addressesBeside(netns: string, ifName: string): string[] {
  using sandbox = findNamespace(netns)
  if (!sandbox) return []
  using inside = sandbox.run(() => RouteSocket.open())
  const own = findLink(inside, ifName)?.index
  const others = listAddresses(inside).filter(({ index }) => index !== own)
  return others.map(({ ip }) => formatCidr({ ip, prefix: 8 * ip.length }))
}

/** Undefined also for a path at which something else lies: then it is not the namespace of the container either. */
function findNamespace(netns: string): Netns | undefined {
  try {
    return Netns.find(netns)
  } catch {
    return undefined
  }
}
