import { type Finding, sentenceOf } from "../doctor/mod.ts"
import { redactText } from "../secrets.ts"
import type { Fault, Graph, Member } from "./model.ts"

/**
 * Returns the graph with doctor's findings added to the objects that they concern: to the containers of a finding's
 * attachments, to containers and links that its cause or message names, and to segments of its network. All other
 * findings concern the node as a whole.
 */
export function withFaults(graph: Graph, findings: readonly Finding[]): Graph {
  const placed = new Map<string, Fault[]>()
  for (const finding of findings) {
    const fault = {
      rule: finding.rule,
      severity: finding.severity,
      text: redactText(`${sentenceOf(finding)}: ${finding.why}`),
    }
    for (const id of placesOf(finding, graph)) placed.getOrInsert(id, []).push(fault)
  }
  const at = <T extends { readonly id: string }>(one: T): T & { faults?: readonly Fault[] } => {
    const faults = placed.get(one.id)
    return faults === undefined ? one : { ...one, faults }
  }
  const onNode = placed.get(NODE)
  return {
    ...(onNode === undefined ? {} : { faults: onNode }),
    uplinks: graph.uplinks.map(at),
    segments: graph.segments.map((segment) => at({ ...segment, members: segment.members.map(at) })),
  }
}

const NODE = "node"

/** Returns the IDs of the objects that a finding concerns. Returns none if its containers are not part of the graph. */
function placesOf({ affected = [], cause = "", what, network }: Finding, { uplinks, segments }: Graph): string[] {
  const owners = affected.flatMap(({ attachment }) => (attachment === undefined ? [] : [attachment]))
  const ids = new Set(owners.map((one) => `attachment ${one.network}/${one.containerId}/${one.ifName}`))
  const said = [cause, ...(owners.length > 0 ? [] : [...affected.map(({ name }) => name), what])].join(" ")
  const words = new Set(said.match(/[^\s"',:;()]+/g))
  const members = segments.flatMap((segment) => segment.members)
  const nameOf = ({ network, containerId, ifName }: Member) =>
    [network, containerId, ...(ifName ? [ifName] : [])].join("/")
  const found = [
    ...members.filter((one) => ids.has(one.id) || words.has(one.hostEnd ?? "") || words.has(nameOf(one))),
    ...segments.filter(({ kind, title }) => kind !== "network" && words.has(title)),
    ...uplinks.filter(({ name }) => words.has(name)),
  ]
  if (found.length > 0 || owners.length > 0) return found.map(({ id }) => id)
  const ofNetwork = segments.filter(({ networks }) => network !== undefined && networks.includes(network))
  return ofNetwork.length > 0 ? ofNetwork.map(({ id }) => id) : [NODE]
}
