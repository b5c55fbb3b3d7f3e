import { release, Store } from "../../ipam/host-local/main.ts"
import { type Attachment, delNetwork, type Network, type Runtime } from "../../pkg/libcni/mod.ts"
import { ownerComment } from "../../pkg/types/mod.ts"
import { attachmentsOf, deleteRulesOf, type Node, type NodeAttachment, recordedNetwork } from "../node/mod.ts"
import type { Patient } from "./finding.ts"

/**
 * The deletion of an orphan: by the DEL of its network's plugins, and where no configuration is left, or no interface is known,
 * its leases and rules alone.
 */
export interface Deletion {
  readonly orphan: NodeAttachment
  readonly network: Network | undefined
  readonly stores: readonly string[]
}

/** The planned deletions of orphans. */
export function planDeletion(orphan: NodeAttachment, { node }: Pick<Patient, "node">): Deletion {
  const ofFile = node.networks.find(({ network }) => network?.name === orphan.network)?.network
  const stores = node.stores.filter(({ network, leases }) => {
    const isHolder = ({ holder }: (typeof leases)[number]) =>
      typeof holder === "object" && holder.containerId === orphan.containerId && holder.ifName === orphan.ifName
    return network === orphan.network && leases.some(isHolder)
  })
  const network = orphan.ifName === "" ? undefined : (recordedNetwork(orphan.cached) ?? ofFile)
  return { orphan, network, stores: stores.map(({ directory }) => directory) }
}

/** Whether there is a way to delete an orphan: not for a record in the cache that has no configuration, and no other has. */
export function isDeletable({ orphan, network, stores }: Deletion): boolean {
  return network !== undefined || stores.length > 0 || orphan.rules.length > 0
}

/** As sentences, for people. */
export function describeDeletion({ orphan, network, stores }: Deletion): string {
  const what = `${orphan.network}/${orphan.containerId}${orphan.ifName === "" ? "" : `/${orphan.ifName}`}`
  if (network)
    return `DEL of ${what} by ${network.plugins
      .map(({ type }) => type)
      .toReversed()
      .join(", ")}`
  const places = [...new Set(orphan.rules.map(({ place }) => place))]
  const parts = [
    ...(stores.length > 0 ? ["release the lease"] : []),
    ...(places.length > 0 ? [`delete the rules in ${places.join(", ")}`] : []),
  ]
  const why =
    orphan.ifName === "" ? "they name no interface for a DEL" : "no configuration of its network is left for a DEL"
  return `${parts.join(" and ")} of ${what} (${why})`
}

/** Deletes what an orphan has left. Throws what the plugins throw. */
export async function carryOut({ orphan, network, stores }: Deletion, runtime: Runtime): Promise<void> {
  const { containerId, ifName, cached } = orphan
  const attachment: Attachment = {
    containerId,
    ifName,
    netns: "",
    args: cached?.args ?? [],
    capabilityArgs: cached?.capabilityArgs ?? {},
  }
  const cacheDir = cached?.cacheDir ?? runtime.cacheDir
  if (network) await delNetwork({ ...runtime, cacheDir }, network, attachment)
  else for (const directory of stores) release(new Store({ directory, log: () => {} }), { containerId, ifName })
  // Plugins of the other suite go by the namespace, or by what only the runtime knows.
  if (orphan.rules.length > 0) deleteRulesOf(orphan)
}

/** The remains of an orphan after its deletion, as sentences. */
export function remainsOf({ orphan }: Deletion, node: Node): string[] {
  const comment = ownerComment(orphan)
  const left = attachmentsOf(node).find((one) => ownerComment(one) === comment)
  if (left === undefined) return []
  const places = new Set(left.rules.map(({ place }) => place))
  return [
    ...(left.sources.includes("lease") ? [`the lease of ${left.addresses.join(", ")} is still there`] : []),
    ...(left.sources.includes("cache") ? ["the cache entry is still there"] : []),
    ...[...places].map((place) => `rules in ${place} are still there`),
  ]
}
