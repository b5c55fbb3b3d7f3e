import type { NodeAttachment } from "./attachments.ts"
import type { NodeLink } from "./links.ts"
import type { Node } from "./read.ts"
import { recordedPlugins } from "./recorded.ts"

/** The bridge to which ADD attached a container, and from which the container is now disconnected. */
export interface LostBridge {
  readonly bridge: string
  /** Whether the bridge exists on the host. If it exists, the host's end is not one of its ports. */
  readonly isThere: boolean
  /** The host's end. */
  readonly end: NodeLink
}

/** Returns the bridge that an attachment lacks. Undefined if it is connected, or if it needs no bridge. */
export function lostBridge(one: NodeAttachment, node: Pick<Node, "links" | "networks">): LostBridge | undefined {
  const { link: end, isAlive } = one
  if (end === undefined || end.nsid !== undefined || end.kind !== "veth" || isAlive === false) return undefined
  const bridge = bridgeOfAdd(one, node)
  if (bridge === undefined) return undefined
  const found = node.links.find(({ nsid, kind, name }) => nsid === undefined && kind === "bridge" && name === bridge)
  return found !== undefined && end.master === found.index ? undefined : { bridge, isThere: found !== undefined, end }
}

/** Describes a lost bridge: "bridge "cni0" does not exist", or ""veth1" is not a port of bridge "cni0"". */
export function describeLostBridge({ bridge, isThere, end }: LostBridge): string {
  return isThere ? `"${end.name}" is not a port of bridge "${bridge}"` : `bridge "${bridge}" does not exist`
}

/** Returns the bridge in ADD's configuration, or the network's file; for flannel's delegate, in ADD's result. */
function bridgeOfAdd({ network, cached, result }: NodeAttachment, { networks }: Pick<Node, "networks">) {
  const plugins =
    recordedPlugins(cached) ?? networks.find((one) => one.network?.name === network)?.network?.plugins ?? []
  const plugin = plugins.find(({ type }) => type === "bridge")
  if (plugin) return typeof plugin.raw.bridge === "string" && plugin.raw.bridge !== "" ? plugin.raw.bridge : "cni0"
  const onHost = result?.interfaces.filter(({ sandbox }) => !sandbox) ?? []
  const isBridged = plugins.some(({ type }) => type === "flannel") && onHost.length === 2
  return isBridged ? onHost[0]?.name : undefined
}
