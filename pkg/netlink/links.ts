import { encodeUtf8 } from "../engine/mod.ts"
import { unlessErrno } from "../libc/mod.ts"
import { IFNAMSIZ } from "../types/mod.ts"
import { attrs } from "./attrs.ts"
import type { Request } from "./channel.ts"
import { bytes, type Infer } from "./codec.ts"
import { i32, u16, u32 } from "./integers.ts"
import {
  briefLinkAttributes,
  briefLinkPayload,
  type LinkData,
  type LinkKind,
  linkAttributes,
  linkHeader,
  linkKinds,
  linkPayload,
} from "./link-table.ts"
import { decodeLongLink, MAX_LENGTH } from "./long-links.ts"
import { type Message, NetlinkError, readAnswer } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
export const RTM_GETLINK = 18
/** <asm-generic/errno-base.h> */
const ENODEV = 19
/** Leaves the IPv6 counters out of the answer: they take many bytes, and no caller reads them. */
const RTEXT_FILTER_SKIP_STATS = 8

/** The index of a link, unique in its namespace. */
export type Ifindex = number & { readonly __brand: "Ifindex" }

/** A link given by its index. The name is only for error messages. */
export type NamedLink = Pick<Link, "index" | "name">

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
  /** "veth", "bridge", …; empty for a device that was not created by netlink. */
  kind: string
  attributes: Infer<typeof linkAttributes>
}

/** A link with only the attributes that the tools read. */
export interface BriefLink extends Omit<Link, "attributes"> {
  attributes: Omit<Infer<typeof briefLinkAttributes>, "unknown">
}

/** Returns the `IFLA_INFO_DATA` of a link of the given kind; undefined for a link of another kind. */
export function linkData<K extends LinkKind>(
  { kind: found, attributes }: Pick<BriefLink, "kind" | "attributes">,
  kind: K,
): LinkData<K> | undefined {
  if (found !== kind) return undefined
  const data = attributes.linkInfo?.data ?? new Uint8Array()
  return readAnswer(`read the attributes of a link of kind ${kind}`, () => linkKinds[kind].decode(data)) as LinkData<K>
}

/** `IFLA_INET6_CONF` in AF_INET6 of `IFLA_AF_SPEC`: an array of settings by `DEVCONF_*`, <linux/ipv6.h>. */
const familySettings = attrs({ inet6: [10, attrs({ settings: [2, bytes] })] })
const DEVCONF_ACCEPT_RA = 3

/**
 * Reports whether a link accepts router advertisements: `net.ipv6.conf.NAME.accept_ra`. False if the link has no IPv6.
 */
export function acceptsRa({ attributes }: Link): boolean {
  const { inet6 } = familySettings.decode(attributes.perFamily ?? new Uint8Array())
  return i32.get(inet6?.settings ?? new Uint8Array(), 4 * DEVCONF_ACCEPT_RA) !== 0
}

/** Returns a link by its name, an alternative name, or its index, like `ip link show`. Throws `ENODEV`. */
export function getLink(route: NetlinkSocket, which: string | Ifindex): Link {
  return route.get(lookUp(which), readLink)
}

/** Like `getLink`, but returns undefined if the link does not exist. */
export function findLink(route: NetlinkSocket, which: string | Ifindex): Link | undefined {
  // No name contains a NUL. The kernel would ignore the text after it.
  if (typeof which === "string" && which.includes("\0")) return undefined
  return route.find(lookUp(which), ENODEV, readLink)
}

/**
 * Returns a link of the namespace with this nsid; undefined if link or namespace does not exist. Throws `NetlinkError`.
 */
export function findLinkInside(route: NetlinkSocket, nsid: number, index: Ifindex): Link | undefined {
  return unlessErrno(() => route.find(lookUp(index, nsid), ENODEV, readLink), "EINVAL")
}

function lookUp(which: string | Ifindex, nsid?: number): Request {
  const name = typeof which === "string" ? which : undefined
  const index = typeof which === "number" ? which : 0
  const what = `find link ${name === undefined ? `number ${index}` : JSON.stringify(name)}`
  if (name?.includes("\0")) throw new NetlinkError(what, ENODEV)
  // A longer name can only be an alternative name.
  const attributes = name === undefined ? {} : encodeUtf8(name).length >= IFNAMSIZ ? { altName: name } : { name }
  const asked = { ...attributes, targetNetnsId: nsid, extMask: RTEXT_FILTER_SKIP_STATS }
  const payload = linkPayload.encode({ index }, asked)
  return { type: RTM_GETLINK, what, payload }
}

/** The kind and the master by which the kernel selects links. Kernels before 4.6 ignore both. */
export interface LinkFilter {
  kind?: string
  master?: Ifindex
}

/**
 * Returns the links of the namespace, like `ip link show type KIND`: all of them, or those that match. On a host with
 * hundreds of links, the list may change during every attempt to read it. The result then is the union of all attempts.
 * It contains every link that existed all the time, and possibly some that no longer exist.
 */
export function listLinks(
  route: NetlinkSocket,
  isWanted: (link: Link) => boolean = () => true,
  filter: LinkFilter = {},
): Link[] {
  return listLinksOf(route, undefined, readLink, isWanted, filter)
}

/** Returns all links, with fewer attributes; with `nsid` those of that namespace, none if it no longer exists. */
export function listBriefLinks(route: NetlinkSocket, nsid?: number): BriefLink[] {
  const list = () => listLinksOf(route, nsid, readBriefLink)
  return nsid === undefined ? list() : (unlessErrno(list, "EINVAL") ?? [])
}

/** Returns the links of the namespace with this nsid; an empty list if it no longer exists. */
export function listLinksInside(
  route: NetlinkSocket,
  nsid: number,
  isWanted: (link: Link) => boolean,
  filter: LinkFilter = {},
): Link[] {
  return unlessErrno(() => listLinksOf(route, nsid, readLink, isWanted, filter), "EINVAL") ?? []
}

/** The attempts to read a changing list of links. A link missing in three lists does not exist. */
const LIST_ATTEMPTS = 3

function listLinksOf<T extends BriefLink>(
  route: NetlinkSocket,
  nsid: number | undefined,
  read: (message: Message) => T,
  isWanted: (link: T) => boolean = () => true,
  { kind, master }: LinkFilter = {},
): T[] {
  const picked = { master, linkInfo: kind ? { kind } : undefined }
  const attributes = { targetNetnsId: nsid, ...picked, extMask: RTEXT_FILTER_SKIP_STATS }
  const payload = linkPayload.encode({}, attributes)
  const seen = new Map<number, T>()
  const pick = (message: Message) => {
    const link = read(message)
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

/** Decodes a message of type `RTM_NEWLINK` or `RTM_DELLINK` from an answer or an event. */
export function readLink(message: Message): Link {
  const { payload } = message
  const isLong = payload.length > MAX_LENGTH
  return described(payload, isLong ? decodeLongLink(payload, linkAttributes) : linkPayload.decodeAttributes(payload))
}

function readBriefLink({ payload }: Message): BriefLink {
  const isLong = payload.length > MAX_LENGTH
  return described(
    payload,
    isLong ? decodeLongLink(payload, briefLinkAttributes) : briefLinkPayload.decodeAttributes(payload),
  )
}

function described<A extends BriefLink["attributes"]>(payload: Uint8Array, attributes: A) {
  const { offsets } = linkHeader
  return {
    index: i32.get(payload, offsets.index) as Ifindex,
    name: attributes.name ?? "",
    flags: u32.get(payload, offsets.flags),
    type: u16.get(payload, offsets.type),
    mac: attributes.mac ?? "",
    mtu: attributes.mtu ?? 0,
    kind: attributes.linkInfo?.kind ?? "",
    attributes,
  }
}
