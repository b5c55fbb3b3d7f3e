import { ETH_P_IP, ETH_P_IPV6 } from "../../../pkg/libc/mod.ts"
import { bytes, concat, struct, u8, u16be, u32be } from "../../../pkg/netlink/mod.ts"
import { formatMac, parseMac, sameBytes } from "../../../pkg/types/mod.ts"

/** <linux/if_ether.h>, <linux/if_arp.h>, <linux/in.h> */
export const ETH_P_ARP = 0x0806
const ARPHRD_ETHER = 1
const ARPOP_REQUEST = 1
export const IPPROTO_UDP = 17
export const IPPROTO_ICMPV6 = 58

export const broadcastMac = "ff:ff:ff:ff:ff:ff"

/** The IPv4 header without options, before the addresses (RFC 791, 3.1). */
const ipv4Header = struct({
  versionAndLength: u8,
  service: u8,
  length: u16be,
  id: u16be,
  fragment: u16be,
  ttl: u8,
  protocol: u8,
  checksum: u16be,
})
/** The IPv6 header before the addresses (RFC 8200, 3). */
const ipv6Header = struct({ versionAndFlow: u32be, length: u16be, nextHeader: u8, hopLimit: u8 })
/** The UDP header (RFC 768). */
const udpHeader = struct({ source: u16be, destination: u16be, length: u16be, checksum: u16be })

export interface Host {
  readonly mac: string
  readonly ip: Uint8Array
}

export interface Endpoint extends Host {
  readonly port: number
}

/** A frame for a client: UDP over either IP, or an ICMPv6 message. */
export type Packet =
  | { readonly kind: "udp"; readonly from: Endpoint; readonly to: Endpoint; readonly payload: Uint8Array }
  | { readonly kind: "icmpv6"; readonly mac: string; readonly ip: Uint8Array; readonly message: Uint8Array }

/** Returns an Ethernet frame with a payload. Throws `RangeError` for a hardware address of another link type. */
function encodeFrame(to: string, from: string, type: number, payload: Uint8Array): Uint8Array {
  return concat([ethernetAddress(to), ethernetAddress(from), u16be.encode(type), payload])
}

/** Returns the bytes of an Ethernet hardware address. Throws `RangeError` for any other text. */
export function ethernetAddress(text: string): Uint8Array {
  const mac = parseMac(text)
  if (mac?.length !== 6) throw new RangeError(`"${text}" is not a hardware address of Ethernet`)
  return mac
}

/** Returns a frame with a UDP datagram. The length of the addresses selects IPv4 or IPv6. */
export function encodeUdp(from: Endpoint, to: Endpoint, payload: Uint8Array): Uint8Array {
  const length = udpHeader.size + payload.length
  const pseudo = pseudoHeader(from.ip, to.ip, IPPROTO_UDP, length)
  const header = { source: from.port, destination: to.port, length, checksum: 0 }
  const sum = checksum([pseudo, udpHeader.encode(header), payload])
  const datagram = concat([udpHeader.encode({ ...header, checksum: sum || 0xffff }), payload])
  return from.ip.length === 4
    ? ipv4Frame(from, to, datagram)
    : ipv6Frame(from, to, { nextHeader: IPPROTO_UDP, hopLimit: 64, payload: datagram })
}

/** Returns a frame with an ICMPv6 message. Neighbor discovery requires its hop limit of 255 (RFC 4861). */
export function encodeIcmpv6(from: Host, to: Host, message: Uint8Array): Uint8Array {
  const whole = message.slice()
  u16be.put(0, whole, 2)
  u16be.put(checksum([pseudoHeader(from.ip, to.ip, IPPROTO_ICMPV6, whole.length), whole]), whole, 2)
  return ipv6Frame(from, to, { nextHeader: IPPROTO_ICMPV6, hopLimit: 255, payload: whole })
}

function ipv4Frame(from: Endpoint, to: Endpoint, datagram: Uint8Array): Uint8Array {
  const length = ipv4Header.size + 8 + datagram.length
  const header = ipv4Header.encode({ versionAndLength: 0x45, length, ttl: 64, protocol: IPPROTO_UDP })
  u16be.put(checksum([header, from.ip, to.ip]), header, 10)
  return encodeFrame(to.mac, from.mac, ETH_P_IP, concat([header, from.ip, to.ip, datagram]))
}

interface Ipv6Packet {
  readonly nextHeader: number
  readonly hopLimit: number
  readonly payload: Uint8Array
}

function ipv6Frame(from: Host, to: Host, { nextHeader, hopLimit, payload }: Ipv6Packet): Uint8Array {
  const header = ipv6Header.encode({ versionAndFlow: 0x60000000, length: payload.length, nextHeader, hopLimit })
  return encodeFrame(to.mac, from.mac, ETH_P_IPV6, concat([header, from.ip, to.ip, payload]))
}

/** Returns the hardware address of a multicast IPv6 address (RFC 2464, 7). */
export function multicastMac(ip: Uint8Array): string {
  return `33:33:${formatMac(ip.subarray(12))}`
}

/** Returns the pseudo header for a checksum. IPv6's has more zeros than this, which do not change the sum. */
function pseudoHeader(from: Uint8Array, to: Uint8Array, protocol: number, length: number): Uint8Array {
  return concat([from, to, Uint8Array.of(0, protocol), u16be.encode(length)])
}

/** Returns the internet checksum (RFC 1071) of `parts`. All parts but the last must have an even length. */
export function checksum(parts: readonly Uint8Array[]): number {
  let sum = 0
  for (const part of parts) for (let at = 0; at < part.length; at += 2) sum += u16be.get(part, at)
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000)
  return ~sum & 0xffff
}

/**
 * Reads a frame. Returns undefined unless it contains a whole UDP datagram or an ICMPv6 message. Ignores the checksum
 * of UDP, because it is missing in packets from this machine: only a network card computes it.
 */
export function readPacket(frame: Uint8Array): Packet | undefined {
  const type = u16be.get(frame, 12)
  if (type === ETH_P_IP) return readIpv4(frame)
  return type === ETH_P_IPV6 ? readIpv6(frame) : undefined
}

function readIpv4(frame: Uint8Array): Packet | undefined {
  const packet = frame.subarray(14)
  if (packet.length < 20) return undefined
  const { versionAndLength, length, fragment, protocol } = ipv4Header.decode(packet.subarray(0, ipv4Header.size))
  const headerLength = (versionAndLength & 0x0f) * 4
  if (versionAndLength >> 4 !== 4 || headerLength < 20 || length > packet.length || headerLength > length)
    return undefined
  if (protocol !== IPPROTO_UDP || (fragment & 0x3fff) !== 0) return undefined // 0x2000: more fragments follow
  if (checksum([packet.subarray(0, headerLength)]) !== 0) return undefined
  return readUdp(frame, packet.subarray(12, 16), packet.subarray(16, 20), packet.subarray(headerLength, length))
}

function readIpv6(frame: Uint8Array): Packet | undefined {
  const packet = frame.subarray(14)
  if (packet.length < 40) return undefined
  const { versionAndFlow, length, nextHeader, hopLimit } = ipv6Header.decode(packet.subarray(0, ipv6Header.size))
  if (versionAndFlow >>> 28 !== 6 || 40 + length > packet.length) return undefined
  const [from, to, payload] = [packet.subarray(8, 24), packet.subarray(24, 40), packet.subarray(40, 40 + length)]
  if (nextHeader === IPPROTO_UDP) return readUdp(frame, from, to, payload)
  if (nextHeader !== IPPROTO_ICMPV6 || hopLimit !== 255 || payload.length < 8) return undefined
  if (checksum([pseudoHeader(from, to, IPPROTO_ICMPV6, length), payload]) !== 0) return undefined
  return { kind: "icmpv6", mac: formatMac(frame.subarray(6, 12)), ip: from, message: payload }
}

function readUdp(frame: Uint8Array, from: Uint8Array, to: Uint8Array, datagram: Uint8Array): Packet | undefined {
  if (datagram.length < udpHeader.size) return undefined
  const { source, destination, length } = udpHeader.decode(datagram.subarray(0, udpHeader.size))
  if (length < udpHeader.size || length > datagram.length) return undefined
  return {
    kind: "udp",
    from: { mac: formatMac(frame.subarray(6, 12)), ip: from, port: source },
    to: { mac: formatMac(frame.subarray(0, 6)), ip: to, port: destination },
    payload: datagram.subarray(udpHeader.size, length),
  }
}

/** The ARP header before its four addresses (RFC 826). */
const arpHeader = struct({ hardware: u16be, protocol: u16be, hardwareLength: u8, protocolLength: u8, operation: u16be })
const arpOfIpv4 = { hardware: ARPHRD_ETHER, protocol: ETH_P_IP, hardwareLength: 6, protocolLength: 4 }
const unspecified = new Uint8Array(4)

/** Returns an ARP probe, which has no sender address (RFC 5227, 2.1.1). */
export function encodeProbe(mac: string, ip: Uint8Array): Uint8Array {
  const asked = concat([
    arpHeader.encode({ ...arpOfIpv4, operation: ARPOP_REQUEST }),
    ethernetAddress(mac),
    unspecified,
    new Uint8Array(6),
    ip,
  ])
  return encodeFrame(broadcastMac, mac, ETH_P_ARP, asked)
}

/**
 * Returns the hardware address of another interface that uses the IPv4 address `ip` or probes for it, according to an
 * ARP frame (RFC 5227, 2.1.1). Returns undefined for any other frame.
 */
export function findUser(frame: Uint8Array, mac: string, ip: Uint8Array): string | undefined {
  if (u16be.get(frame, 12) !== ETH_P_ARP || frame.length < 14 + 28) return undefined
  const arp = frame.subarray(14, 14 + 28)
  const { operation, ...rest } = arpHeader.decode(arp.subarray(0, arpHeader.size))
  if (!sameBytes(arpHeader.encode(rest), arpHeader.encode(arpOfIpv4))) return undefined
  const sender = formatMac(arp.subarray(8, 14))
  const [senderIp, targetIp] = [bytes.decode(arp.subarray(14, 18)), bytes.decode(arp.subarray(24, 28))]
  const probes = operation === ARPOP_REQUEST && sameBytes(senderIp, unspecified) && sameBytes(targetIp, ip)
  return sender !== mac && (sameBytes(senderIp, ip) || probes) ? sender : undefined
}
