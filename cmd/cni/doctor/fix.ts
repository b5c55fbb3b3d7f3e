import { release, Store } from "../../../ipam/host-local/main.ts"
import { type Attachment, delNetwork, type Network, parseNetworkList, type Runtime } from "../../../pkg/libcni/mod.ts"
import type { NodeAttachment } from "../../node/mod.ts"
import type { Patient } from "./finding.ts"

/** How an orphan is deleted: by the DEL of its network's plugins, or, where no configuration is left, its lease alone. */
export interface Deletion {
  readonly orphan: NodeAttachment
  readonly network: Network | undefined
  readonly stores: readonly string[]
}

/** What would be done about orphans, before anything is done. */
export function planDeletion(orphan: NodeAttachment, { node }: Patient): Deletion {
  const ofFile = node.networks.find(({ network }) => network?.name === orphan.network)?.network
  const stores = node.stores.filter(({ network, leases }) => {
    const isHolder = ({ holder }: (typeof leases)[number]) =>
      typeof holder === "object" && holder.containerId === orphan.containerId && holder.ifName === orphan.ifName
    return network === orphan.network && leases.some(isHolder)
  })
  return { orphan, network: networkOfAdd(orphan) ?? ofFile, stores: stores.map(({ directory }) => directory) }
}

function networkOfAdd({ cached }: NodeAttachment): Network | undefined {
  try {
    return cached && parseNetworkList(cached.config)
  } catch {
    return undefined
  }
}

/** As sentences, for people. */
export function describeDeletion({ orphan, network, stores }: Deletion): string {
  const what = `${orphan.network}/${orphan.containerId}/${orphan.ifName}`
  if (network)
    return `DEL of ${what} by ${network.plugins
      .map(({ type }) => type)
      .toReversed()
      .join(", ")}`
  if (stores.length > 0) return `release the lease of ${what} (no configuration of its network is left for a DEL)`
  return `nothing: there is no configuration of network "${orphan.network}" to run a DEL with`
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
  if (network) await delNetwork(runtime, network, attachment)
  else for (const directory of stores) release(new Store({ directory, log: () => {} }), { containerId, ifName })
}
