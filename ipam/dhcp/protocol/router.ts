import { struct, u8, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { formatCidr, formatIp, isLinkLocal, networkOf, type Route } from "../../../pkg/types/mod.ts"
import { decodeNames, fromHex, pieces, toHex } from "./bytes.ts"
import { readPacket } from "./frames.ts"
import type { RouterSeen } from "./types.ts"

/** A router advertisement (RFC 4861, 4.2). */
export interface Advertisement {
  /** The time for which the sender is a default router; 0 if it is not one. */
  lifetimeSeconds: number
  /** The preference of the router: high 1, medium 0, low -1 (RFC 4191, 2.1). */
  preference: number
  /** The prefixes of addresses on the link, like "2001:db8::/64". */
  onLink: { ip: Uint8Array; prefix: number }[]
  /** Further routes through this router (RFC 4191, 2.3). */
  routes: Route[]
  mtu?: number
  nameservers: string[]
  search: string[]
}

const ROUTER_ADVERTISEMENT = 134

/** The message before its options (RFC 4861, 4.2). */
const header = struct({
  type: u8,
  code: u8,
  checksum: u16be,
  hopLimit: u8,
  flags: u8,
  lifetime: u16be,
  reachable: u32be,
  retransmit: u32be,
})

/** The types of options: RFC 4861, 4.6 (3, 5), RFC 4191 (24), RFC 8106 (25, 31). */
const Option = { Prefix: 3, Mtu: 5, Route: 24, Nameservers: 25, Search: 31 } as const

/** The smallest MTU of IPv6 (RFC 8200, 5). */
const minimalMtu = 1280

/** Returns a frame's router advertisement; undefined for other frames and for senders that are not on the link. */
export function readAdvertisement(frame: Uint8Array, at: number): RouterSeen | undefined {
  const packet = readPacket(frame)
  if (packet?.kind !== "icmpv6" || packet.message[0] !== ROUTER_ADVERTISEMENT) return undefined
  if (!isLinkLocal(packet.ip) || packet.message[1] !== 0 || !parseAdvertisement(packet.message)) return undefined
  return { address: formatIp(packet.ip), at, message: toHex(packet.message) }
}

export function advertisementOf(router: RouterSeen): Advertisement | undefined {
  return parseAdvertisement(fromHex(router.message))
}

/** Returns the router to use: `latest` if it is preferred, if it is the known router, or if that has expired. */
export function preferredRouter(known: RouterSeen | undefined, latest: RouterSeen): RouterSeen {
  const [before, after] = [known && advertisementOf(known), advertisementOf(latest)]
  if (!known || !before || !after || known.address === latest.address) return latest
  if (latest.at >= known.at + before.lifetimeSeconds * 1000) return latest
  return after.lifetimeSeconds > 0 && after.preference > before.preference ? latest : known
}

/** Parses a router advertisement; undefined if an option has length 0 or exceeds the message (RFC 4861, 6.1.2). */
function parseAdvertisement(message: Uint8Array): Advertisement | undefined {
  if (message.length < header.size) return undefined
  const { flags, lifetime } = header.decode(message.subarray(0, header.size))
  const preference = [0, 1, 0, -1][(flags >> 3) & 3] ?? 0
  const found: Advertisement = {
    lifetimeSeconds: lifetime,
    preference,
    onLink: [],
    routes: [],
    nameservers: [],
    search: [],
  }
  for (let at = header.size; at < message.length; ) {
    const length = (message[at + 1] ?? 0) * 8
    if (length === 0 || at + length > message.length) return undefined
    readOption(message.subarray(at, at + length), found)
    at += length
  }
  return found
}

/** The flag of a prefix whose addresses are on the link (RFC 4861, 4.6.2). */
const ON_LINK = 0x80
/** The offset of the lifetime in every option that has one. A lifetime of 0 withdraws the option's content. */
const LIFETIME = 4

function readOption(option: Uint8Array, found: Advertisement): void {
  const [type, , prefix = 0, flags = 0] = option
  if (type === Option.Prefix && option.length === 32) {
    const isOnLink = (flags & ON_LINK) !== 0 && u32be.get(option, LIFETIME) > 0
    if (isOnLink && prefix <= 128) found.onLink.push({ ip: option.slice(16, 32), prefix })
  } else if (type === Option.Mtu && option.length === 8) {
    const mtu = u32be.get(option, 4)
    if (mtu >= minimalMtu && mtu <= 0xffff) found.mtu = mtu
  } else if (type === Option.Route && prefix <= 128 && option.length >= 8 + Math.ceil(prefix / 64) * 8) {
    const ip = new Uint8Array(16)
    ip.set(option.subarray(8, 24))
    if (u32be.get(option, LIFETIME) > 0)
      found.routes.push({ dst: formatCidr({ ip: networkOf({ ip, prefix }), prefix }) })
  } else if (type === Option.Nameservers && option.length >= 24) {
    if (u32be.get(option, LIFETIME) > 0) found.nameservers.push(...(pieces(option.subarray(8), 16) ?? []).map(formatIp))
  } else if (type === Option.Search && option.length >= 16 && u32be.get(option, LIFETIME) > 0) {
    found.search.push(...(decodeNames(withoutPadding(option.subarray(8)), false) ?? []))
  }
}

/** Returns encoded names without the padding, that is, the zeros after the end of the last name (RFC 8106, 5.2). */
function withoutPadding(names: Uint8Array): Uint8Array {
  let end = names.length
  while (end > 1 && names[end - 1] === 0 && names[end - 2] === 0) end--
  return names.subarray(0, end)
}
