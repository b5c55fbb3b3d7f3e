import { findLink, listAddresses, RouteSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { formatCidr } from "../types/mod.ts"

/**
 * The addresses that a container has on other interfaces than this one, each as "10.1.0.2/32". None when the container's
 * namespace is gone, and with it all interfaces.
 */
export function addressesBeside(namespace: NamespaceFile, ifName: string): string[] {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return []
  using inside = sandbox.run(() => RouteSocket.open())
  const own = findLink(inside, ifName)?.index
  const others = listAddresses(inside).filter(({ index }) => index !== own)
  return others.map(({ ip }) => formatCidr({ ip, prefix: 8 * ip.length }))
}
