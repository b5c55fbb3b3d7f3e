import { decodeLatin1 } from "../../pkg/engine/mod.ts"
import { isJsonObject, type JsonObject, parseJsonObject } from "../../pkg/types/mod.ts"
import { describedPlugins, isOnMaster } from "../../suite/plugins.ts"
import {
  type Counters,
  describeLostBridge,
  type LostBridge,
  lostBridge,
  type Node,
  type NodeAttachment,
  type NodeLink,
  recordedPlugins,
} from "../node/mod.ts"
import { redact } from "../secrets.ts"
import { sortedByNames } from "../tables.ts"

/** The content of a picture: the host's uplinks, the segments between containers, and the containers' interfaces. */
export interface Graph {
  /** Faults of the node as a whole. */
  readonly faults?: readonly Fault[]
  readonly uplinks: readonly Uplink[]
  readonly segments: readonly Segment[]
}

/** A finding of `cni doctor`. */
export interface Fault {
  readonly rule: string
  readonly severity: "error" | "warning"
  /** The finding and its consequence. */
  readonly text: string
}

/** An interface of the host through which containers' packets may leave. */
export interface Uplink {
  readonly id: string
  readonly name: string
  readonly kind: string
  readonly mtu: number
  readonly isUp: boolean
  readonly addresses: readonly string[]
  /** The routes, such as "default via 192.0.2.1". */
  readonly routes: readonly string[]
  readonly counters?: Counters
  readonly faults?: readonly Fault[]
}

/** A layer 2 segment that connects interfaces of containers: a bridge, a parent, or a network's pairs. */
export interface Segment {
  readonly id: string
  readonly kind: "bridge" | "parent" | "network"
  /** The name of the interface or network: "cni0", "eth0", "pods". */
  readonly title: string
  /** The kind of the segment: "bridge", "macvlan on eth0", "ptp". */
  readonly caption: string
  readonly isUp: boolean
  /** Whether the segment exists, and is not a deleted bridge that containers still need. */
  readonly isThere: boolean
  readonly mtu?: number
  readonly addresses: readonly string[]
  readonly networks: readonly string[]
  readonly masquerades: boolean
  readonly ports: number
  readonly counters?: Counters
  /** The ID of the uplink that is the parent of the segment's interfaces. */
  readonly uplink?: string
  readonly faults?: readonly Fault[]
  readonly members: readonly Member[]
}

/** A container's interface. */
export interface Member {
  readonly id: string
  readonly title: string
  /** The pod's namespace in Kubernetes. */
  readonly namespace?: string
  readonly network: string
  readonly containerId: string
  readonly ifName: string
  readonly addresses: readonly string[]
  readonly ports: readonly string[]
  readonly hostEnd?: string
  readonly mtu?: number
  readonly vlanId?: number
  readonly isAlive?: boolean
  readonly orphan: readonly string[]
  /** Why the interface gets no packets from its segment: the bridge was deleted, or the host's end is not its port. */
  readonly fault?: string
  readonly masquerades: boolean
  readonly faults?: readonly Fault[]
  /** The traffic counters, as the container sees them. */
  readonly counters?: Counters
  readonly config?: JsonObject
}

export function graphOf(node: Node, attachments: readonly NodeAttachment[]): Graph {
  const onHost = node.links.filter(({ nsid }) => nsid === undefined)
  const drafts = new Map<string, { shared: Shared; members: Member[] }>()
  const configs = new Map<string, JsonObject | undefined>() // usually the same for all containers of a network
  for (const one of attachments) {
    const bytes = one.cached?.config
    const config = bytes && configs.getOrInsertComputed(decodeLatin1(bytes), () => configOf(bytes))
    const isPort = onHost.some(({ index }) => index === one.link?.master) // the attachment's own bridge, or another one
    const lost = isPort ? undefined : lostBridge(one, node)
    const shared = lost && !lost.isThere ? deletedBridge(lost.bridge) : sharedOf(one, config, onHost)
    drafts.getOrInsert(shared.key, { shared, members: [] }).members.push(memberOf(one, config, lost))
  }
  const segments = [...drafts.values()].map(({ shared, members }): Segment => {
    const { link } = shared
    return {
      id: `segment ${shared.key}`,
      kind: shared.kind,
      title: shared.title,
      caption: shared.caption,
      isUp: link?.isUp ?? true,
      isThere: !shared.isDeleted,
      ...(link === undefined ? {} : { mtu: link.mtu }),
      addresses: link?.addresses.filter((address) => !address.startsWith("fe80:")) ?? [],
      networks: [...new Set(members.map(({ network }) => network))],
      masquerades: members.some(({ masquerades }) => masquerades),
      ports: members.reduce((sum, { ports }) => sum + ports.length, 0),
      ...(link?.counters === undefined ? {} : { counters: link.counters }),
      ...(shared.kind === "parent" && link ? { uplink: `uplink ${link.name}` } : {}),
      members: sortedByNames(members, ({ namespace = "", title, ifName }) => [namespace, title, ifName]),
    }
  })
  return {
    uplinks: uplinksOf(node, onHost, drafts),
    segments: segments.sort((a, b) => b.members.length - a.members.length),
  }
}

/** The properties of the segment that an attachment shares with others. */
interface Shared {
  readonly key: string
  readonly kind: Segment["kind"]
  readonly title: string
  readonly caption: string
  readonly link?: NodeLink
  readonly isDeleted?: boolean
}

function deletedBridge(name: string): Shared {
  return { key: name, kind: "bridge", title: name, caption: "bridge", isDeleted: true }
}

/** The plugins whose interfaces have a parent on the host. */
const ON_PARENT = describedPlugins.filter(isOnMaster).map(({ name }) => name)

function sharedOf(one: NodeAttachment, config: JsonObject | undefined, onHost: readonly NodeLink[]): Shared {
  const plugin = pluginsIn(config)[0]
  const written = typeof plugin?.type === "string" ? plugin.type : undefined
  const type = recordedPlugins(one.cached)?.[0]?.type ?? written ?? one.link?.kind ?? "network"
  const master = onHost.find(({ index }) => index === one.link?.master && one.link?.nsid === undefined)
  const bridge =
    master ?? (type === "bridge" ? onHost.find(({ name }) => name === (plugin?.bridge ?? "cni0")) : undefined)
  if (bridge) return { key: bridge.name, kind: "bridge", title: bridge.name, caption: "bridge", link: bridge }
  const isOnParent = ON_PARENT.includes(type)
  const parent = isOnParent
    ? onHost.find(({ name, index }) =>
        typeof plugin?.master === "string" ? name === plugin.master : index === one.link?.peer,
      )
    : undefined
  const key = `${type} ${parent?.name ?? one.network}`
  if (parent) return { key, kind: "parent", title: parent.name, caption: `${type} on ${parent.name}`, link: parent }
  return { key, kind: "network", title: one.network, caption: type }
}

function memberOf(one: NodeAttachment, config: JsonObject | undefined, lost: LostBridge | undefined): Member {
  const { network, containerId, ifName, addresses, ports, link, isAlive, orphan, pod, rules } = one
  const hostEnd = link?.nsid === undefined ? link : undefined
  const counted = link?.counters // the host's end sends the packets that the container receives
  const counters = hostEnd && counted ? { received: counted.sent, sent: counted.received } : counted
  return {
    id: `attachment ${network}/${containerId}/${ifName}`,
    title: pod?.name ?? containerId,
    network,
    containerId,
    ifName,
    addresses,
    ports,
    orphan,
    ...(pod?.namespace ? { namespace: pod.namespace } : {}),
    ...(lost === undefined ? {} : { fault: describeLostBridge(lost) }),
    masquerades: rules.some(({ place }) => /masquerade|nat (POSTROUTING|CNI-)/.test(place)),
    ...(hostEnd === undefined ? {} : { hostEnd: hostEnd.name }),
    ...(link === undefined ? {} : { mtu: link.mtu }),
    ...(link?.vlanId === undefined ? {} : { vlanId: link.vlanId }),
    ...(isAlive === undefined ? {} : { isAlive }),
    ...(counters === undefined ? {} : { counters }),
    ...(config === undefined ? {} : { config }),
  }
}

function uplinksOf(
  { routes }: Node,
  onHost: readonly NodeLink[],
  drafts: ReadonlyMap<string, { shared: Shared }>,
): Uplink[] {
  const parents = new Set(
    [...drafts.values()].flatMap(({ shared: { kind, link } }) => (kind === "parent" && link ? [link.name] : [])),
  )
  const bridges = new Set(
    [...drafts.values()].flatMap(({ shared: { kind, link } }) => (kind === "bridge" && link ? [link.name] : [])),
  )
  const own = (name: string) => routes.filter(({ dev, protocol }) => dev === name && protocol !== 2)
  const isUplink = ({ name, kind, addresses }: NodeLink) =>
    parents.has(name) ||
    (!bridges.has(name) && name !== "lo" && kind !== "veth" && addresses.some((each) => !each.startsWith("fe80:"))) ||
    (kind === "veth" && routes.some(({ dev, dst }) => dev === name && /^(0\.0\.0\.0|::)\/0$/.test(dst)))
  return onHost.filter(isUplink).map(({ name, kind, mtu, isUp, addresses, counters }) => ({
    id: `uplink ${name}`,
    name,
    kind: kind || "device",
    mtu,
    isUp,
    addresses: addresses.filter((address) => !address.startsWith("fe80:")),
    routes: own(name).map(
      ({ dst, gateway }) =>
        `${/^(0\.0\.0\.0|::)\/0$/.test(dst) ? "default" : dst}${gateway === undefined ? "" : ` via ${gateway}`}`,
    ),
    ...(counters === undefined ? {} : { counters }),
  }))
}

/** Returns the configuration without secrets, because users share pictures. */
function configOf(bytes: Uint8Array): JsonObject | undefined {
  try {
    return redact(parseJsonObject(bytes)) as JsonObject
  } catch {
    return undefined
  }
}

function pluginsIn(config: JsonObject | undefined): JsonObject[] {
  if (config === undefined) return []
  return Array.isArray(config.plugins) ? config.plugins.filter(isJsonObject) : [config]
}
