import { encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { concat, type Infer } from "./codec.ts"
import {
  IFF_ALLMULTI,
  IFF_PROMISC,
  IFF_UP,
  LINK_OPTIONS,
  type LinkData,
  type LinkKind,
  linkAttributes,
  linkHeader,
  linkKinds,
  type OperState,
} from "./link-table.ts"
import { type Message, NetlinkError, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, readAnswer } from "./message.ts"
import type { NetlinkSocket, Request } from "./socket.ts"

/** <linux/rtnetlink.h> */
export const RTM_NEWLINK = 16
export const RTM_DELLINK = 17
const RTM_GETLINK = 18
/** <asm-generic/errno-base.h> */
const ENODEV = 19
/** Leaves the IPv6 counters out of the answer: they are many of its bytes, and are read nowhere here. */
const RTEXT_FILTER_SKIP_STATS = 8

/** The number of a link, unique in its namespace. */
export type Ifindex = number & { readonly __brand: "Ifindex" }

/** A link as the kernel describes it. */
export interface Link {
  index: Ifindex
  name: string
  /** IFF_* bits. */
  flags: number
  /** ARPHRD_*: 1 is Ethernet, 772 loopback. */
  type: number
  mac: string
  mtu: number
  /** "veth", "bridge", …; empty for devices that were not made by netlink. */
  kind: string
  attributes: Infer<typeof linkAttributes>
}

/** A link to be made, of a kind of `linkKinds`. Undefined properties are left to the kernel. */
export interface LinkSpec<K extends LinkKind = LinkKind> extends LinkEnd, Parent {
  kind: K
  data?: LinkData<K> | undefined
}

interface Parent {
  /** The link that this one sits on: of a VLAN, a macvlan, an ipvlan. */
  parent?: Ifindex | undefined
  /** The namespace of that link, where it is not the socket's own: its nsid there. */
  parentNsid?: number | undefined
}

/** What any new link may have, and each end of a veth pair. */
export interface LinkEnd {
  name: string
  mac?: string | undefined
  mtu?: number | undefined
  master?: Ifindex | undefined
  txQueueLength?: number | undefined
  /** How many queues it can ever have, in each direction: `numtxqueues N numrxqueues N`. */
  queues?: number | undefined
  /** Makes the link in this namespace instead of the socket's own. */
  netnsFd?: number | undefined
  up?: boolean | undefined
}

/**
 * Creates a link, like `ip link add link PARENT name NAME type KIND`, in one request with its final name, MAC and MTU, and
 * directly in its namespace. Throws `EEXIST` when the name is taken there.
 */
export function addLink<K extends LinkKind>(route: NetlinkSocket, spec: LinkSpec<K>): void {
  route.execute(toAdd(spec))
}

/**
 * Creates a link that has an alias from its first moment: both requests travel in one datagram, which the kernel works off
 * even when the process is killed. Throws `EEXIST` when the name is taken; the link of that name has the alias then.
 */
export function addAliasedLink<K extends LinkKind>(route: NetlinkSocket, spec: LinkSpec<K>, alias: string): void {
  const requests = [toAdd(spec), toChange(spec.name, { alias })]
  try {
    route.transact(requests.map((request) => ({ ...request, flags: (request.flags ?? 0) | NLM_F_ACK })))
  } catch (error) {
    if (!isErrno(error, "EEXIST")) tryDelete(route, spec.name) // it may be the alias that was refused, or the answer that was lost
    throw error
  }
}

/** Part of the way back from another error, which must not be buried. */
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
  const payload = concat([
    linkHeader.encode({ flags, change: flags }),
    linkAttributes.encode({ ...attributesOf(spec), linkInfo: info }),
  ])
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, what: `create ${what}`, payload }
}

/**
 * Creates a veth pair in one request, like `ip link add NAME type veth peer name PEER netns NS`; with an alias by `addAliasedLink`.
 * Throws `EEXIST` when a name is taken, and then neither end exists. Of the peer the kernel sets neither the master here nor `up`, which would be
 * refused: it has no other end yet when it is made.
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

/** What a link of this kind says of itself beyond what all links say; undefined for a link of another kind. */
export function linkData<K extends LinkKind>({ kind: found, attributes }: Link, kind: K): LinkData<K> | undefined {
  if (found !== kind) return undefined
  const data = attributes.linkInfo?.data ?? new Uint8Array()
  return readAnswer(`read what a link of kind ${kind} is like`, () => linkKinds[kind].decode(data)) as LinkData<K>
}

/** Looks up a link by its name (or an alternative one) or index, like `ip link show`. Throws `ENODEV`. */
export function getLink(route: NetlinkSocket, which: string | Ifindex): Link {
  return route.get(lookUp(which), readLink)
}

/** Like `getLink`, and undefined when there is no such link. */
export function findLink(route: NetlinkSocket, which: string | Ifindex): Link | undefined {
  if (typeof which === "string" && which.includes("\0")) return undefined // a NUL ends a name: no link has one in it
  return route.find(lookUp(which), ENODEV, readLink)
}

/** A link of the namespace that the socket's own knows by this nsid; undefined when either has gone. Throws `NetlinkError`. */
export function findLinkInside(route: NetlinkSocket, nsid: number, index: Ifindex): Link | undefined {
  try {
    return route.find(lookUp(index, nsid), ENODEV, readLink)
  } catch (error) {
    if (isErrno(error, "EINVAL")) return undefined
    throw error
  }
}

function lookUp(which: string | Ifindex, nsid?: number): Request {
  const name = typeof which === "string" ? which : undefined
  const index = typeof which === "number" ? which : 0
  const what = `find link ${name === undefined ? `number ${index}` : JSON.stringify(name)}`
  if (name?.includes("\0")) throw new NetlinkError(what, ENODEV)
  // A name of more than 15 bytes can only be an alternative one.
  const attributes = name === undefined ? {} : encodeUtf8(name).length > 15 ? { altName: name } : { name }
  const payload = concat([
    linkHeader.encode({ index }),
    linkAttributes.encode({ ...attributes, targetNetnsId: nsid, extMask: RTEXT_FILTER_SKIP_STATS }),
  ])
  return { type: RTM_GETLINK, what, payload }
}

/** Links that the kernel picks out before it tells of them: of a kind, of a master. Kernels before 4.6 do not. */
export interface LinkFilter {
  kind?: string
  master?: Ifindex
}

/**
 * The links of the namespace, like `ip link show type KIND`: all, or those that are wanted. A host with hundreds of links, on which containers
 * come and go all the time, changes during each attempt to list them; then what any attempt has seen: each link that was there
 * all the while, and some that have gone.
 */
export function listLinks(
  route: NetlinkSocket,
  isWanted: (link: Link) => boolean = () => true,
  filter: LinkFilter = {},
): Link[] {
  return listLinksOf(route, undefined, isWanted, filter)
}

/** Those of the namespace that the socket's own knows by this nsid; none when it has gone. */
export function listLinksInside(
  route: NetlinkSocket,
  nsid: number,
  isWanted: (link: Link) => boolean,
  filter: LinkFilter = {},
): Link[] {
  try {
    return listLinksOf(route, nsid, isWanted, filter)
  } catch (error) {
    if (isErrno(error, "EINVAL")) return []
    throw error
  }
}

/** How often links are listed that change meanwhile: a list of hundreds takes a while, and what three have not seen is not there. */
const LIST_ATTEMPTS = 3

function listLinksOf(
  route: NetlinkSocket,
  nsid: number | undefined,
  isWanted: (link: Link) => boolean,
  { kind, master }: LinkFilter,
): Link[] {
  const picked = { master, linkInfo: kind ? { kind } : undefined }
  const attributes = { targetNetnsId: nsid, ...picked, extMask: RTEXT_FILTER_SKIP_STATS }
  const payload = concat([linkHeader.encode({}), linkAttributes.encode(attributes)])
  const seen = new Map<number, Link>()
  const pick = (message: Message) => {
    const link = readLink(message)
    seen.delete(link.index)
    if ((kind && link.kind !== kind) || (master && link.attributes.master !== master) || !isWanted(link))
      return undefined
    seen.set(link.index, link)
    return link
  }
  try {
    return route.dump({ type: RTM_GETLINK, what: "list links", payload }, pick, LIST_ATTEMPTS)
  } catch (error) {
    if (!(error instanceof NetlinkError && error.willPass)) throw error
    return [...seen.values()]
  }
}

/** A message of type `RTM_NEWLINK` or `RTM_DELLINK`, as it comes in answers and events. */
export function readLink(message: Message): Link {
  const header = linkHeader.decode(message.payload.subarray(0, linkHeader.size))
  const attributes = linkAttributes.decode(message.payload.subarray(linkHeader.size))
  return {
    index: header.index as Ifindex,
    name: attributes.name ?? "",
    flags: header.flags,
    type: header.type,
    mac: attributes.mac ?? "",
    mtu: attributes.mtu ?? 0,
    kind: attributes.linkInfo?.kind ?? "",
    attributes,
  }
}

/** What `setLink` can change. */
export interface LinkChange {
  up?: boolean
  promiscuous?: boolean
  /** Whether it takes all multicast frames, `ip link set NAME allmulticast on`. */
  allMulticast?: boolean
  /** All flags of `LINK_OPTIONS`: those that are not in it go. */
  options?: number
  name?: string
  mac?: string | undefined
  mtu?: number | undefined
  /** 0 takes the link away from its master. */
  master?: Ifindex | 0 | undefined
  txQueueLength?: number
  alias?: string
  netnsFd?: number
  /** The index that it gets in `netnsFd`'s namespace; kernels before 5.12 choose one themselves. */
  newIndex?: Ifindex
  /** From unknown to up is all that the kernel lets be said, and only where it is not against what the carrier says. */
  operState?: typeof OperState.Up
}

/** Changes a link, given as itself or by name, all at once, like `ip link set`. Throws `ENODEV` when there is none. */
export function setLink(route: NetlinkSocket, which: string | Pick<Link, "index" | "name">, change: LinkChange): void {
  route.execute(toChange(which, change))
}

function toChange(which: string | Pick<Link, "index" | "name">, change: LinkChange): Request {
  const { up, promiscuous, allMulticast, options, ...attributes } = change
  let flags = (options ?? 0) & LINK_OPTIONS
  let mask = options === undefined ? 0 : LINK_OPTIONS
  for (const [bit, wanted] of [
    [IFF_UP, up],
    [IFF_PROMISC, promiscuous],
    [IFF_ALLMULTI, allMulticast],
  ] as const) {
    if (wanted === undefined) continue
    mask |= bit
    if (wanted) flags |= bit
  }
  const payload = concat([
    linkHeader.encode({ index: typeof which === "string" ? undefined : which.index, flags, change: mask }),
    linkAttributes.encode(typeof which === "string" ? { name: which, ...attributes } : attributes),
  ])
  const name = typeof which === "string" ? which : which.name
  const changed = Object.entries(change).flatMap(([key, value]) => (value === undefined ? [] : [key]))
  return { type: RTM_NEWLINK, what: `set ${changed.join(", ")} of link "${name}"`, payload }
}

/**
 * Deletes a link, and with a veth its peer, like `ip link del`; of the namespace that the socket's own knows by `nsid`, if one
 * is given. Throws `ENODEV` when there is none.
 */
export function deleteLink(route: NetlinkSocket, link: Pick<Link, "index" | "name">, nsid?: number): void {
  const payload = concat([linkHeader.encode({ index: link.index }), linkAttributes.encode({ targetNetnsId: nsid })])
  route.execute({ type: RTM_DELLINK, what: `delete link "${link.name}"`, payload })
}
