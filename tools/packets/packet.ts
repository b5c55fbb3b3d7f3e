import { ETH_P_IP, ETH_P_IPV6 } from "../../pkg/libc/mod.ts"
import { u16, u16be, u32 } from "../../pkg/netlink/mod.ts"
import { ifnameValue, PayloadBase } from "../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, familyOf } from "../../pkg/types/mod.ts"
import { agreeing, type Bits, knownBits, unknownBits } from "./bits.ts"
import type { Kernel } from "./kernel.ts"

export interface Destination {
  readonly ip: Uint8Array
  /** The port. 0 for ICMP, which has no ports. */
  readonly port: number
  readonly protocol: "tcp" | "udp" | "icmp"
}

/** A connection's first packet, or its answer, at one hook. A rule that changes the packet creates a changed copy. */
export interface Packet {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  /** `IPPROTO_*` */
  readonly protocol: number
  /** The destination port. 0 for ICMP, and for an answer, whose destination port is unknown. */
  readonly destinationPort: number
  /** The source port of an answer; 0 for ICMP. Undefined for the first packet, because the client chooses the port. */
  readonly sourcePort?: number
  readonly input: string
  readonly output: string
  /** The mark, a u32. It is 0 at first, because the kernel clears it when a packet leaves a container's namespace. */
  readonly mark: Bits
  /** The mark of the connection, a u32. */
  readonly connectionMark: Bits
  /** The labels of the connection, 128 bits. */
  readonly connectionLabels: Bits
  /** "none" before the kernel looks up the connection: at prerouting, before priority -200. */
  readonly tracking: "none" | "new" | "established" | "untracked"
  /** The addresses and the destination port as the sender set them. */
  readonly original: { readonly source: Uint8Array; readonly destination: Uint8Array; readonly destinationPort: number }
  readonly isDestinationMapped: boolean
  readonly isSourceMapped: boolean
  /** Whether br_netfilter sends the packet through the rules, as a frame that the host does not route. */
  readonly isBridged: boolean
  /** The bridge of a frame in rules of family bridge. Its `input` and `output` are bridge ports. */
  readonly bridge?: string
  /** The type of an ICMPv6 message of neighbor discovery. Undefined for an echo. */
  readonly icmpType?: number
  /** Whether a process of the host sends the packet. */
  readonly isOfHost?: true
}

export const IPPROTO = { icmp: 1, tcp: 6, udp: 17, icmpv6: 58 } as const

/** Returns the packet after a rule that may match: only values that are equal in both packets stay known. */
export function agreeingPacket(before: Packet, after: Packet): Packet {
  return {
    ...before,
    mark: agreeing(before.mark, after.mark, "the mark"),
    connectionMark: agreeing(before.connectionMark, after.connectionMark, "the connection's mark"),
    connectionLabels: agreeing(before.connectionLabels, after.connectionLabels, "the connection's labels"),
  }
}

export const NO_LABELS: Bits = knownBits(new Uint8Array(16))

/** Creates the first packet of a connection, as it arrives at an interface of the host. */
export function firstPacket(source: Uint8Array, destination: Destination, input: string): Packet {
  const { ip, port } = destination
  return {
    source,
    destination: ip,
    protocol: protocolOf(destination),
    destinationPort: port,
    input,
    output: "",
    mark: u32Bits(0),
    connectionMark: u32Bits(0),
    connectionLabels: NO_LABELS,
    tracking: "new",
    original: { source, destination: ip, destinationPort: port },
    isDestinationMapped: false,
    isSourceMapped: false,
    isBridged: false,
  }
}

export function protocolOf({ protocol, ip }: Destination): number {
  if (protocol !== "icmp") return IPPROTO[protocol]
  return familyOf(ip) === AF_INET ? IPPROTO.icmp : IPPROTO.icmpv6
}

export function u32Bits(value: number): Bits {
  return knownBits(u32.encode(value >>> 0))
}

/** `enum nft_meta_keys`, <linux/netfilter/nf_tables.h>. */
const Meta = {
  protocol: 1,
  mark: 3,
  iif: 4,
  oif: 5,
  iifname: 6,
  oifname: 7,
  iiftype: 8,
  oiftype: 9,
  skuid: 10,
  skgid: 11,
  nfproto: 15,
  l4proto: 16,
  ibrname: 17,
  obrname: 18,
  packetType: 19,
  iifgroup: 21,
  oifgroup: 22,
  cgroup: 23,
  random: 24,
  iifkind: 26,
  oifkind: 27,
} as const
const OF_INPUT = new Set<number>([Meta.iif, Meta.iiftype, Meta.iifgroup, Meta.iifkind])
const OF_OUTPUT = new Set<number>([Meta.oif, Meta.oiftype, Meta.oifgroup, Meta.oifkind])
const NO_INTERFACE = { index: 0, type: 0, group: 0, kind: "" }
/** Names of `meta` keys in messages. */
const META_NAMES: Readonly<Record<number, string>> = {
  0: "meta length",
  2: "meta priority",
  [Meta.skuid]: "the process's user",
  [Meta.skgid]: "the process's group",
  20: "meta cpu",
  [Meta.cgroup]: "the process's cgroup",
  [Meta.random]: "chance",
  30: "the time",
  31: "the day",
  32: "the hour",
}

/** Returns what `meta KEY` loads, or "break" if it ends the rule: `meta skuid` for a packet of no host process. */
export function metaOf(packet: Packet, key: number, kernel: Pick<Kernel, "interfaceOf">): Bits | "break" {
  const { input, output, protocol, source, mark, bridge = "" } = packet
  const isOfOutput = OF_OUTPUT.has(key)
  if (isOfOutput || OF_INPUT.has(key)) {
    const name = isOfOutput ? output : input
    const found = name === "" ? NO_INTERFACE : kernel.interfaceOf(name)
    if (found === undefined) return unknownBits(`a property of interface "${name}"`)
    if (key === Meta.iif || key === Meta.oif) return u32Bits(found.index)
    if (name === "") return "break"
    if (key === Meta.iifkind || key === Meta.oifkind)
      return found.kind === "" ? "break" : knownBits(ifnameValue(found.kind))
    return key === Meta.iifgroup || key === Meta.oifgroup ? u32Bits(found.group) : knownBits(u16.encode(found.type))
  }
  if (key === Meta.ibrname) return knownBits(ifnameValue(input === "" ? "" : bridge))
  if (key === Meta.obrname) return knownBits(ifnameValue(output === "" ? "" : bridge))
  const isIpv4 = familyOf(source) === AF_INET
  if (key === Meta.protocol) return knownBits(u16be.encode(isIpv4 ? ETH_P_IP : ETH_P_IPV6))
  if (key === Meta.mark) return mark
  if (key === Meta.iifname) return knownBits(ifnameValue(input))
  if (key === Meta.oifname) return knownBits(ifnameValue(output))
  if (key === Meta.nfproto) return knownBits(Uint8Array.of(isIpv4 ? AF_INET : AF_INET6))
  if (key === Meta.l4proto) return knownBits(Uint8Array.of(protocol))
  if (key === Meta.packetType) return knownBits(Uint8Array.of(0)) // PACKET_HOST
  const isOfProcess = key === Meta.skuid || key === Meta.skgid || key === Meta.cgroup
  if (isOfProcess && !packet.isOfHost) return "break"
  return unknownBits(META_NAMES[key] ?? `meta key ${key}`, key === Meta.random)
}

/** `enum nft_ct_keys` */
const Ct = {
  state: 0,
  direction: 1,
  status: 2,
  mark: 3,
  l3protocol: 7,
  source: 8,
  destination: 9,
  protocol: 10,
  protocolDestination: 12,
  labels: 13,
  zone: 17,
  sourceIp: 19,
  destinationIp: 20,
  sourceIp6: 21,
  destinationIp6: 22,
} as const
const CT_STATES = { none: 1, established: 2, new: 8, untracked: 64 } as const // an invalid packet has no bit
/** `IPS_SRC_NAT`, `IPS_DST_NAT`: <linux/netfilter/nf_conntrack_common.h>. */
export const IPS_SRC_NAT = 16
export const IPS_DST_NAT = 32
const IP_CT_DIR_REPLY = 1

/** Reports whether a packet is the answer to the first packet of a connection. */
export function isAnswer({ sourcePort }: Packet): boolean {
  return sourcePort !== undefined
}

export function isTracked({ tracking }: Packet): boolean {
  return tracking === "new" || tracking === "established"
}

/** Returns the TCP flags of a connection's first segment, SYN, or of its answer, SYN and ACK. */
export function tcpFlagsOf(packet: Packet): number {
  return isAnswer(packet) ? 0x12 : 2
}

/** Returns the type of an echo request, or of its answer, in ICMP or ICMPv6. */
export function icmpTypeOf(packet: Packet): number {
  if (packet.icmpType !== undefined) return packet.icmpType
  if (packet.protocol === IPPROTO.icmp) return isAnswer(packet) ? 0 : 8
  return isAnswer(packet) ? 129 : 128
}

/** Returns the value of `ct status`: the IPS_* bits of the connection. */
export function statusOf({ isDestinationMapped, isSourceMapped }: Packet): number {
  return (isDestinationMapped ? IPS_DST_NAT : 0) | (isSourceMapped ? IPS_SRC_NAT : 0)
}

/** Returns the value that `ct KEY` loads, or "break" without a connection. */
export function ctOf(packet: Packet, key: number, direction: number | undefined): Bits | "break" {
  if (packet.bridge !== undefined) return unknownBits("the connection of a frame")
  if (key === Ct.state) return u32Bits(CT_STATES[packet.tracking])
  if (packet.tracking === "none" || packet.tracking === "untracked") return "break"
  const { original } = packet
  if (direction === IP_CT_DIR_REPLY) return unknownBits("the connection's other direction")
  if (key === Ct.direction) return knownBits(Uint8Array.of(isAnswer(packet) ? IP_CT_DIR_REPLY : 0))
  if (key === Ct.zone) return knownBits(new Uint8Array(2))
  if (key === Ct.status) return u32Bits(statusOf(packet))
  if (key === Ct.mark) return packet.connectionMark
  if (key === Ct.labels) return packet.connectionLabels
  if (key === Ct.l3protocol) return knownBits(Uint8Array.of(familyOf(original.source)))
  if (key === Ct.protocol) return knownBits(Uint8Array.of(packet.protocol))
  if (key === Ct.source || key === Ct.sourceIp || key === Ct.sourceIp6) return knownBits(original.source)
  if (key === Ct.destination || key === Ct.destinationIp || key === Ct.destinationIp6)
    return knownBits(original.destination)
  if (key === Ct.protocolDestination) return knownBits(u16be.encode(original.destinationPort))
  return unknownBits(`ct key ${key}`)
}

/** The first port of clients: `net.ipv4.ip_local_port_range`, RFC 6335. An answer's destination port is not lower. */
export const CLIENT_PORTS = 0x8000
const TCP_FLAGS = 13

export function payloadOf(packet: Packet, base: number, offset: number, length: number): Bits {
  const header = base === PayloadBase.Network ? networkHeader(packet) : transportHeader(packet)
  if (header === undefined || (base !== PayloadBase.Network && base !== PayloadBase.Transport))
    return unknownBits("the frame's header")
  const [value, known] = [header.value, header.known].map((bytes) => {
    const part = new Uint8Array(length)
    part.set(bytes.subarray(offset, offset + length))
    return part
  }) as [Uint8Array, Uint8Array]
  const client = isAnswer(packet) ? { at: 2, what: "the client's port" } : { at: 0, what: "the source port" }
  return {
    value,
    known,
    what: base === PayloadBase.Transport && offset === client.at ? client.what : (header.what ?? ""),
  }
}

/** Returns the bytes of the IPv4 or IPv6 header that are known before the packet is sent. */
function networkHeader({ source, destination, protocol }: Packet): Bits {
  const isIpv4 = familyOf(source) === AF_INET
  const size = isIpv4 ? 20 : 40
  const [value, known] = [new Uint8Array(size), new Uint8Array(size)]
  const put = (bytes: Uint8Array, at: number) => {
    value.set(bytes, at)
    known.fill(0xff, at, at + bytes.length)
  }
  if (isIpv4) {
    known[6] = 0xbf // flags except "don't fragment", and the fragment offset
    known[7] = 0xff
  }
  put(Uint8Array.of(protocol), isIpv4 ? 9 : 6)
  put(source, isIpv4 ? 12 : 8)
  put(destination, isIpv4 ? 16 : 24)
  return { value, known, what: "a field of the header" }
}

/** Returns the header of TCP, UDP or an echo, in which the client's port is unknown. */
function transportHeader(packet: Packet): Bits {
  const { protocol, destinationPort, sourcePort } = packet
  const [value, known] = [new Uint8Array(20), new Uint8Array(20)]
  const put = (bytes: Uint8Array, at: number) => {
    value.set(bytes, at)
    known.fill(0xff, at, at + bytes.length)
  }
  if (protocol === IPPROTO.icmp || protocol === IPPROTO.icmpv6) put(Uint8Array.of(icmpTypeOf(packet), 0), 0)
  else if (sourcePort !== undefined) {
    put(u16be.encode(sourcePort), 0)
    value[2] = known[2] = CLIENT_PORTS >> 8
  } else put(u16be.encode(destinationPort), 2)
  if (protocol === IPPROTO.tcp) put(Uint8Array.of(tcpFlagsOf(packet)), TCP_FLAGS)
  return { value, known, what: "a field of the header" }
}
