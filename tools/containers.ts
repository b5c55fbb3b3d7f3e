import type { Attachment } from "../pkg/libcni/mod.ts"
import { ownerComment } from "../pkg/types/mod.ts"
import { type Arguments, netnsPath, text } from "./command.ts"
import { containerIdOf, defaults, type Terminal } from "./environment.ts"
import { attachmentsOf, isNamespace, type Node, type NodeAttachment, type NodePlaces, readNode } from "./node/mod.ts"

export const containerHelp = `CONTAINER is the path of a network namespace, a name from "ip netns list", or a name from "cni ps": a container's ID, NAMESPACE/POD,
or NETWORK/ID/IFNAME.`

export interface NamedContainer {
  /** The path of the container's network namespace. Undefined if none is recorded. */
  readonly netns: string | undefined
  /** The container's attachments. Empty for a network namespace without attachments. */
  readonly attachments: readonly NodeAttachment[]
}

/** Reads this node's attachments. Throws if records cannot be read, because existing containers would not be found. */
export function readAttachments(places: NodePlaces): { node: Node; attachments: readonly NodeAttachment[] } {
  const node = readNode(places, { hasRoutes: false })
  const hidden = node.unread.find(({ what }) => what === "cache" || what === "leases")
  if (hidden) throw new Error(`Cannot list the attachments: the ${hidden.what} cannot be read: ${hidden.reason}`)
  return { node, attachments: attachmentsOf(node) }
}

/** Returns the container that an argument names. Throws an error with `more` at the end if none matches. */
export function findContainer(name: string, all: readonly NodeAttachment[], more = ""): NamedContainer {
  const path = netnsPath(name)
  const attachments = all.filter((one) => isNamed(one, name, path))
  const recorded = attachments.find(({ netns }) => netns !== undefined)?.netns
  const netns = recorded ?? (isNamespace(path) === false ? undefined : path)
  if (attachments.length > 0 || netns !== undefined) return { netns, attachments }
  throw new Error(
    `Cannot find container "${name}": no network namespace, container ID, NAMESPACE/POD or NETWORK/ID/IFNAME has this name; "cni ps" lists the containers${more}`,
  )
}

/** Selects an interface of a container by its network, and by its name if the container has several in that network. */
export interface Selection {
  readonly network: string
  readonly ifName: string | undefined
}

/** Returns the selection of a network and of the interface in `--ifname` or `CNI_IFNAME`, if given. */
export function selectionOf(network: string, args: Arguments, { env }: Pick<Terminal, "env">): Selection {
  return { network, ifName: text(args, "ifname") ?? (env.CNI_IFNAME || undefined) }
}

/** Returns the attachment of a container to a network. Throws if none or several match. */
export function findAttachment(
  name: string,
  { network, ifName }: Selection,
  all: readonly NodeAttachment[],
): NodeAttachment {
  const { attachments } = findContainer(name, all)
  const inNetwork = attachments.filter((one) => one.network === network)
  const exact = inNetwork.find((one) => ownerComment(one) === name)
  const byName = (wanted: string) => inNetwork.filter((one) => one.ifName === wanted || one.ifName === "")
  const found = ifName !== undefined ? byName(ifName) : exact ? [exact] : inNetwork
  const [one, ...more] = found.length > 1 && ifName === undefined ? byName(defaults.ifName) : found
  if (one && more.length === 0) return one
  const wanted = ifName === undefined ? "" : ` "${ifName}"`
  const several = [...new Set((found.length > 0 ? found : attachments).map(ownerComment))].join(", ")
  if (found.length > 0) throw new Error(`Cannot choose an interface of container "${name}": it has ${several}`)
  const has = several === "" ? "it is attached to no network" : `it has ${several}`
  throw new Error(`Cannot find interface${wanted} of container "${name}" in network "${network}": ${has}`)
}

/** Returns the attachment for a verb with the container ID, interface name and namespace in the node's records. */
export function asFound(asked: Attachment, { containerId, ifName, netns = "" }: NodeAttachment): Attachment {
  return { ...asked, containerId, ifName: ifName || defaults.ifName, netns }
}

/** The number of digits to which `cni ps` and runtimes shorten IDs of 64 digits. */
const SHORT_ID = 12

function isNamed(one: NodeAttachment, name: string, path: string): boolean {
  const { containerId, pod, netns, lostPath } = one
  const isShort = name.length === SHORT_ID && /^[0-9a-f]{64}$/.test(containerId) && containerId.startsWith(name)
  const names = [containerId, ownerComment(one), pod && `${pod.namespace}/${pod.name}`]
  return isShort || names.includes(name) || netns === path || lostPath === path || containerId === containerIdOf(path)
}
