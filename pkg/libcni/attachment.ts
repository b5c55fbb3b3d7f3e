import { validateContainerId, validateInterfaceName, validateNetworkName } from "../types/mod.ts"
import type { CacheKey } from "./cache.ts"
import type { AttachmentId, Network } from "./network.ts"

/**
 * The cache key of an attachment, all three names checked: they become parts of a path. Throws code 3 or 4 for the
 * container ID, 7 for the network's name, 4 for the interface's.
 */
export function cacheKey(network: Network, { containerId, ifName }: AttachmentId): CacheKey {
  validateContainerId(containerId)
  validateNetworkName(network.name)
  validateInterfaceName(ifName)
  return { network: network.name, containerId, ifName }
}

/** How messages call an attachment. */
export function describeAttachment(network: Network, { containerId, ifName }: AttachmentId): string {
  return `interface "${ifName}" of container "${containerId}" in network "${network.name}"`
}
