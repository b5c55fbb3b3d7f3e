import { attachmentsOf, type NodePlaces, readNode, readPacketFilter } from "../node/mod.ts"
import { type Walk, walk, walkFromHost, walkInbound } from "../packets/mod.ts"
import type { Plan } from "./probes.ts"

/**
 * Returns a function that reports where packets of a failed probe stop, according to `cni trace`. The function returns
 * undefined if they arrive, or if `cni trace` cannot follow them.
 */
export function readsStops(places: NodePlaces, network: string): (plan: Plan) => string | undefined {
  const node = readNode(places)
  const attachments = attachmentsOf(node)
  const filter = readPacketFilter()
  return ({ from, to }) => {
    if (from === "host") return firstStop(walkFromHost({ node, attachments, filter }, to))
    if ("source" in from)
      return firstStop(
        walkInbound({ node, attachments, filter, isWhole: true }, { source: from.source, destination: to }),
      )
    const { containerId, ifName, netns } = from
    const attachment = attachments.find(
      (one) => one.network === network && one.containerId === containerId && one.ifName === ifName,
    )
    return attachment && firstStop(walk({ node, attachments, attachment, filter }, netns, to))
  }
}

function firstStop({ hops }: Walk): string | undefined {
  return (hops.find(({ passes }) => passes === "no") ?? hops.find(({ passes }) => passes === "perhaps"))?.what
}
