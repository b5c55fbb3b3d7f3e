import { release, Store } from "../../ipam/host-local/main.ts"
import { type Attachment, delNetwork, type Network, type Runtime } from "../../pkg/libcni/mod.ts"
import { ownerComment } from "../../pkg/types/mod.ts"
import { attachmentsOf, deleteRulesOf, type Node, type NodeAttachment, recordedNetwork } from "../node/mod.ts"
import type { DoctorInput } from "./finding.ts"

/** A plan to delete an orphan. Without a configuration or an interface name, only leases and rules are deleted. */
export interface Deletion {
  readonly orphan: NodeAttachment
  readonly network: Network | undefined
  readonly stores: readonly string[]
}

export function planDeletion(orphan: NodeAttachment, { node }: Pick<DoctorInput, "node">): Deletion {
  const ofFile = node.networks.find(({ network }) => network?.name === orphan.network)?.network
  const stores = node.stores.filter(({ network, leases }) => {
    const isHolder = ({ holder }: (typeof leases)[number]) =>
      typeof holder === "object" && holder.containerId === orphan.containerId && holder.ifName === orphan.ifName
    return network === orphan.network && leases.some(isHolder)
  })
  const network = orphan.ifName === "" ? undefined : (recordedNetwork(orphan.cached) ?? ofFile)
  return { orphan, network, stores: stores.map(({ directory }) => directory) }
}

/** Reports whether an orphan can be deleted, because it has a configuration, a lease or rules besides a record. */
export function isDeletable({ orphan, network, stores }: Deletion): boolean {
  return network !== undefined || stores.length > 0 || orphan.rules.length > 0
}

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
    orphan.ifName === ""
      ? "the rules do not name an interface for a DEL"
      : "its network no longer has a configuration for a DEL"
  return `${parts.join(" and ")} of ${what} (${why})`
}

/** Deletes an orphan's objects. Throws the plugins' errors. */
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
  // DEL of the reference suite may leave rules: it needs the namespace, or data that only the runtime has.
  if (orphan.rules.length > 0) deleteRulesOf(orphan)
}

/** Returns the objects that an orphan still has after its deletion, as sentences. */
export function remainsOf({ orphan }: Deletion, node: Node): string[] {
  const comment = ownerComment(orphan)
  const left = attachmentsOf(node).find((one) => ownerComment(one) === comment)
  if (left === undefined) return []
  const places = new Set(left.rules.map(({ place }) => place))
  return [
    ...(left.sources.includes("lease") ? [`the lease of ${left.addresses.join(", ")} still exists`] : []),
    ...(left.sources.includes("cache") ? ["the cache entry still exists"] : []),
    ...[...places].map((place) => `rules in ${place} still exist`),
  ]
}
