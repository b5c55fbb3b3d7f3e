import { isErrno } from "../libc/mod.ts"
import type { Request } from "./channel.ts"
import {
  IFF_ALLMULTI,
  IFF_PROMISC,
  IFF_UP,
  LINK_OPTIONS,
  type LinkData,
  type LinkKind,
  linkKinds,
  linkPayload,
  type OperState,
} from "./link-table.ts"
import { findLink, type Ifindex, type NamedLink } from "./links.ts"
import { NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
export const RTM_NEWLINK = 16
export const RTM_DELLINK = 17

/** A link to create, of one of `linkKinds`. The kernel chooses values for properties that are undefined. */
export interface LinkSpec<K extends LinkKind = LinkKind> extends LinkEnd, Parent {
  kind: K
  data?: LinkData<K> | undefined
}

interface Parent {
  /** The link below this one: the parent of a VLAN, a macvlan or an ipvlan. */
  parent?: Ifindex | undefined
  /** The nsid of the parent's namespace, if it is not the socket's own. */
  parentNsid?: number | undefined
}

/** The attributes of any new link, and of each end of a veth pair. */
export interface LinkEnd {
  name: string
  mac?: string | undefined
  mtu?: number | undefined
  master?: Ifindex | undefined
  txQueueLength?: number | undefined
  /** The maximum number of queues in each direction: `numtxqueues N numrxqueues N`. */
  queues?: number | undefined
  /** A descriptor of the namespace in which the link is created, instead of the socket's own. */
  netnsFd?: number | undefined
  up?: boolean | undefined
}

/**
 * Creates a link, like `ip link add link PARENT name NAME type KIND`. One request sets the final name, MAC and MTU, and
 * creates the link directly in its namespace. Throws `EEXIST` if the name is taken there.
 */
export function addLink<K extends LinkKind>(route: NetlinkSocket, spec: LinkSpec<K>): void {
  route.execute(toAdd(spec))
}

/**
 * Creates a link and sets its alias. Both requests travel in one datagram, which the kernel processes completely even
 * if the process is killed. Throws `EEXIST` if the name is taken; the existing link then has the new alias.
 */
export function addAliasedLink<K extends LinkKind>(route: NetlinkSocket, spec: LinkSpec<K>, alias: string): void {
  try {
    // Each request can be refused by itself. The acknowledgement of the last request arrives after the refusals.
    route.transact([toAdd(spec), { ...toSetLink(spec.name, { alias }), flags: NLM_F_ACK }])
  } catch (error) {
    // After other errors the link may exist: the alias was refused, or the answer was lost.
    if (!isErrno(error, "EEXIST")) tryDelete(route, spec.name)
    throw error
  }
}

/** Deletes a link if it exists, and ignores errors: they would hide the error that is being handled. */
function tryDelete(route: NetlinkSocket, name: string): void {
  try {
    const left = findLink(route, name)
    if (left) deleteLink(route, left)
  } catch {}
}

function toAdd<K extends LinkKind>(spec: LinkSpec<K>): Request {
  const { kind, name, data, up } = spec
  const flags = up ? IFF_UP : 0
  const info = { kind, data: data && linkKinds[kind].encode(data as never) }
  const what = data && "peer" in data ? `veth pair "${name}" and "${data.peer?.name}"` : `${kind} "${name}"`
  const payload = linkPayload.encode({ flags, change: flags }, { ...attributesOf(spec), linkInfo: info })
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, what: `create ${what}`, payload }
}

/**
 * Creates a veth pair in one request, like `ip link add NAME type veth peer name PEER netns NS`. Sets `alias` like
 * `addAliasedLink`. Throws `EEXIST` if a name is taken; then neither end exists. The kernel ignores a master of the
 * peer here, and refuses `up` for the peer, which has no other end yet.
 */
export function addVeth(
  route: NetlinkSocket,
  { alias, ...end }: LinkEnd & { alias?: string },
  peer: Omit<LinkEnd, "master" | "up">,
): void {
  const pair = { ...end, kind: "veth", data: { peer: attributesOf(peer) } } as const
  if (alias === undefined) addLink(route, pair)
  else addAliasedLink(route, pair, alias)
}

function attributesOf(link: LinkEnd & Parent) {
  const { name, mac, mtu, parent, parentNsid, master, txQueueLength, queues, netnsFd } = link
  const queueCounts = { txQueues: queues, rxQueues: queues }
  return { name, mac, mtu, link: parent, linkNetnsId: parentNsid, master, txQueueLength, ...queueCounts, netnsFd }
}

/** The attributes that `setLink` can change. */
export interface LinkChange {
  up?: boolean
  promiscuous?: boolean
  /** Receives all multicast frames, like `ip link set NAME allmulticast on`. */
  allMulticast?: boolean
  /** The new value of all flags in `LINK_OPTIONS`. Flags that the value does not contain are cleared. */
  options?: number
  name?: string
  mac?: string | undefined
  mtu?: number | undefined
  /** The index of the new master; 0 removes the link from its master. */
  master?: Ifindex | 0 | undefined
  txQueueLength?: number
  alias?: string
  netnsFd?: number
  /** The index of the link in the namespace of `netnsFd`. Kernels before 5.12 ignore it and choose an index. */
  newIndex?: Ifindex
  /** The operational state. The kernel accepts only unknown to up, and only while the link has carrier. */
  operState?: typeof OperState.Up
}

/** Changes a link, by name or index, in one request, like `ip link set`. Throws `ENODEV` if it does not exist. */
export function setLink(route: NetlinkSocket, which: string | NamedLink, change: LinkChange): void {
  route.execute(toSetLink(which, change))
}

/** Returns the request of `setLink`, for `executeAll`. */
export function toSetLink(which: string | NamedLink, change: LinkChange): Request {
  const { up, promiscuous, allMulticast, options, ...attributes } = change
  // Not a loop over the flags: every ADD changes several links, and a loop takes a tenth of the time for the request.
  const known = (up === undefined ? 0 : IFF_UP) | (promiscuous === undefined ? 0 : IFF_PROMISC)
  const mask = known | (allMulticast === undefined ? 0 : IFF_ALLMULTI) | (options === undefined ? 0 : LINK_OPTIONS)
  const on = (up ? IFF_UP : 0) | (promiscuous ? IFF_PROMISC : 0) | (allMulticast ? IFF_ALLMULTI : 0)
  const flags = on | ((options ?? 0) & LINK_OPTIONS)
  const [name, index] = typeof which === "string" ? [which] : [which.name, which.index]
  const payload = linkPayload.encode(
    { index, flags, change: mask },
    index === undefined ? { name, ...attributes } : attributes,
  )
  const changed = Object.keys(change).filter((key) => change[key as keyof LinkChange] !== undefined)
  return { type: RTM_NEWLINK, what: `set ${changed.join(", ")} of link "${name}"`, payload }
}

/**
 * Deletes a link, and the peer of a veth, like `ip link del`. With `nsid`, deletes the link in that namespace. Throws
 * `ENODEV` if the link does not exist.
 */
export function deleteLink(route: NetlinkSocket, link: NamedLink, nsid?: number): void {
  const payload = linkPayload.encode({ index: link.index }, { targetNetnsId: nsid })
  route.execute({ type: RTM_DELLINK, what: `delete link "${link.name}"`, payload })
}

/** <linux/rtnetlink.h>, since Linux 5.5 */
const RTM_NEWLINKPROP = 108
const RTM_DELLINKPROP = 109

/**
 * Adds alternative names to a link, like `ip link property add dev NAME altname …`. Throws `EEXIST` if a link of the
 * namespace already has one of the names; the names before that one have been added.
 */
export function addAltNames(route: NetlinkSocket, link: NamedLink, altNames: string[]): void {
  changeAltNames(route, link, altNames, RTM_NEWLINKPROP)
}

/** Deletes alternative names, like `ip link property del dev NAME altname …`. Throws `EINVAL` if one is missing. */
export function deleteAltNames(route: NetlinkSocket, link: NamedLink, altNames: string[]): void {
  changeAltNames(route, link, altNames, RTM_DELLINKPROP)
}

function changeAltNames(route: NetlinkSocket, { index, name }: NamedLink, altNames: string[], type: number): void {
  const payload = linkPayload.encode({ index }, { altNames })
  const isNew = type === RTM_NEWLINKPROP
  const flags = isNew ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND : 0
  const what = `${isNew ? "add" : "delete"} names ${altNames.join(", ")} of link "${name}"`
  route.execute({ type, flags, what, payload })
}
