import type { NodeAttachment } from "./attachments.ts"
import type { NodeLink } from "./links.ts"
import type { Node } from "./read.ts"
import { recordedPlugins } from "./recorded.ts"

/** The present state of the bridge to which ADD attached a container. */
export interface LostBridge {
  /** The bridge's name. */
  readonly bridge: string
  /** Whether the host has that bridge: then the host's end is not among its ports. */
  readonly isThere: boolean
  /** The host's end. */
  readonly end: NodeLink
}

/** The bridge that an attachment lives by and is not connected to; undefined where it is, and where no bridge is wanted. */
export function lostBridge(one: NodeAttachment, node: Pick<Node, "links" | "networks">): LostBridge | undefined {
  const { link: end, isAlive } = one
  if (end === undefined || end.nsid !== undefined || end.kind !== "veth" || isAlive === false) return undefined
  const bridge = bridgeOfAdd(one, node)
  if (bridge === undefined) return undefined
  const found = node.links.find(({ nsid, kind, name }) => nsid === undefined && kind === "bridge" && name === bridge)
  return found !== undefined && end.master === found.index ? undefined : { bridge, isThere: found !== undefined, end }
}

/** As a sentence: "bridge "cni0" is not there", ""veth1" is no port of bridge "cni0"". */
export function describeLostBridge({ bridge, isThere, end }: LostBridge): string {
  return isThere ? `"${end.name}" is no port of bridge "${bridge}"` : `bridge "${bridge}" is not there`
}

/** The bridge's name in the configuration of the ADD, else in the network's file; flannel's delegate names it in the result alone. */
function bridgeOfAdd({ network, cached, result }: NodeAttachment, { networks }: Pick<Node, "networks">) {
  const plugins =
    recordedPlugins(cached) ?? networks.find((one) => one.network?.name === network)?.network?.plugins ?? []
  const plugin = plugins.find(({ type }) => type === "bridge")
  if (plugin) return typeof plugin.raw.bridge === "string" && plugin.raw.bridge !== "" ? plugin.raw.bridge : "cni0"
  const onHost = result?.interfaces.filter(({ sandbox }) => !sandbox) ?? []
  const isBridged = plugins.some(({ type }) => type === "flannel") && onHost.length === 2
  return isBridged ? onHost[0]?.name : undefined
}
