import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Bits, compareBits, isKnown, maskedBits } from "./bits.ts"
import { markOf } from "./fib.ts"
import type { Kernel } from "./kernel.ts"
import {
  CLIENT_PORTS,
  IPPROTO,
  icmpTypeOf,
  isAnswer,
  isTracked,
  type Packet,
  statusOf,
  tcpFlagsOf,
  u32Bits,
} from "./packet.ts"

/** Whether an iptables match applies to a packet. Undefined if unknown. */
type Answer = boolean | "by chance" | undefined

/** Reads the fields of a match's struct in little-endian order, the byte order of all supported hosts. */
class Info {
  readonly #view: DataView
  readonly bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  u8 = (at: number) => this.#view.getUint8(at)
  u16 = (at: number) => this.#view.getUint16(at, true)
  u32 = (at: number) => this.#view.getUint32(at, true)
  text = (at: number) => decodeUtf8(this.bytes.subarray(at, this.bytes.indexOf(0, at)))
}

type Match = (info: Info, packet: Packet, kernel: Kernel, revision: number) => Answer

/** Evaluates an iptables match by its name in the kernel. Returns undefined for a struct that is too short. */
export function matchOf(name: string, revision: number, info: Uint8Array, packet: Packet, kernel: Kernel): Answer {
  const match = Object.hasOwn(matches, name) ? matches[name] : undefined
  try {
    return match?.(new Info(info), packet, kernel, revision)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Matches by name. Their structs are in <linux/netfilter/xt_*.h>. */
const matches: Readonly<Record<string, Match>> = {
  comment: () => true,
  nfacct: () => true,
  addrtype: matchAddressType,
  conntrack: matchConnection,
  // struct xt_state_info
  state: (info, packet) => (info.u32(0) & (packet.tracking === "untracked" ? 64 : stateOf(packet))) !== 0,
  mark: (info, { mark }) => matchMark(info, mark),
  connmark: (info, packet) => (isTracked(packet) ? matchMark(info, packet.connectionMark) : false),
  // struct xt_statistic_info: the probability is a fraction of 2^31
  statistic: (info) => (info.u16(0) === 0 && info.u32(4) >= 0x80000000 ? info.u16(2) === 0 : "by chance"),
  tcp: (info, packet) => matchTcp(info, packet),
  udp: (info, packet) => matchPorts(info, packet, IPPROTO.udp, info.u8(8)),
  multiport: matchMultiport,
  icmp: (info, packet) => matchIcmp(info, packet, IPPROTO.icmp),
  icmp6: (info, packet) => matchIcmp(info, packet, IPPROTO.icmpv6),
  iprange: matchRange,
  // struct xt_physdev_info, only with --physdev-is-bridged
  physdev: (info, { isBridged }) => (info.u8(65) === 4 ? isBridged !== ((info.u8(64) & 4) !== 0) : undefined),
  // struct xt_pkttype_info, PACKET_HOST
  pkttype: (info) => (info.u32(0) === 0) !== (info.u32(4) !== 0),
  // struct xt_devgroup_info
  devgroup: ({ u32 }, { input, output }, kernel) => {
    const holds = (name: string, flags: number, at: number) => {
      const group = name === "" ? 0 : kernel.interfaceOf(name)?.group
      if ((u32(0) & flags) === 0) return true
      return group === undefined
        ? undefined
        : (((group ^ u32(at)) & u32(at + 4)) === 0) !== ((u32(0) & (2 * flags)) !== 0)
    }
    const [from, to] = [holds(input, 1, 4), holds(output, 4, 12)]
    return from === false || to === false ? false : from && to
  },
  recent: matchRecent,
  rpfilter: matchReversePath,
}

/** Evaluates address types: struct xt_addrtype_info_v1, and its older version, which has a u32 for each inversion. */
function matchAddressType(
  info: Info,
  { source, destination, input, output }: Packet,
  kernel: Kernel,
  revision: number,
) {
  const flags = revision === 0 ? (info.u32(4) === 0 ? 0 : 1) | (info.u32(8) === 0 ? 0 : 2) : info.u32(4)
  const link = (flags & 4) !== 0 ? input : (flags & 8) !== 0 ? output : undefined
  const has = (ip: Uint8Array, mask: number, isInverted: boolean) =>
    mask === 0 || ((mask & (1 << kernel.addressType(ip, link))) !== 0) !== isInverted
  return has(source, info.u16(0), (flags & 1) !== 0) && has(destination, info.u16(2), (flags & 2) !== 0)
}

/** `XT_CONNTRACK_*`: bits for the fields that are compared. */
const CONNTRACK = {
  state: 1,
  originalSource: 4,
  originalDestination: 8,
  status: 64,
  direction: 1 << 12,
  alias: 1 << 13,
} as const

/** Returns the `XT_CONNTRACK_STATE_*` bits of a packet's connection. */
function stateOf(packet: Packet): number {
  const { tracking, isDestinationMapped, isSourceMapped } = packet
  const state = { none: 1, established: 2, new: 8, untracked: 256 }[tracking]
  return isTracked(packet) ? state | (isSourceMapped ? 64 : 0) | (isDestinationMapped ? 128 : 0) : state
}

/** Evaluates state, status and direction of a connection: struct xt_conntrack_mtinfo1, 2 and 3. */
function matchConnection(info: Info, packet: Packet, _: Kernel, revision: number): Answer {
  if (revision === 0) return undefined
  const [flags, inverted] = [info.u16(146), info.u16(148)]
  const mask = (at: number) => (revision === 1 ? info.u8(150 + at) : info.u16(150 + 2 * at))
  const says = (flag: number, holds: boolean) => (flags & flag) === 0 || holds !== ((inverted & flag) !== 0)
  if (!says(CONNTRACK.state, (mask(0) & stateOf(packet)) !== 0)) return false
  if (!isTracked(packet)) return (flags & ~(CONNTRACK.state | CONNTRACK.alias)) === 0
  if (!says(CONNTRACK.direction, !isAnswer(packet)) || !says(CONNTRACK.status, (mask(1) & statusOf(packet)) !== 0))
    return false
  const isIn = (ip: Uint8Array, at: number) =>
    ip.every((byte, i) => ((byte ^ info.u8(at + i)) & info.u8(at + 16 + i)) === 0)
  const { source, destination } = packet.original
  if (!says(CONNTRACK.originalSource, isIn(source, 0)) || !says(CONNTRACK.originalDestination, isIn(destination, 32)))
    return false
  const known = Object.values(CONNTRACK).reduce((all, flag) => all | flag)
  return (flags & ~known) === 0 ? true : undefined
}

/** Evaluates a mark: struct xt_mark_mtinfo1. */
function matchMark(info: Info, mark: Bits): Answer {
  const order = compareBits(maskedBits(mark, info.bytes.subarray(4, 8), new Uint8Array(4)), u32Bits(info.u32(0)).value)
  return order === undefined ? undefined : (order === 0) !== (info.u8(8) !== 0)
}

/** Evaluates TCP ports and flags: struct xt_tcp. */
function matchTcp(info: Info, packet: Packet): Answer {
  const [mask, wanted, inverted] = [info.u8(9), info.u8(10), info.u8(11)]
  if (packet.protocol !== IPPROTO.tcp) return false
  if (((tcpFlagsOf(packet) & mask) === wanted) === ((inverted & 4) !== 0)) return false
  const ports = matchPorts(info, packet, IPPROTO.tcp, inverted)
  return ports === true && info.u8(8) !== 0 ? undefined : ports // the match requires a TCP option
}

/** Compares the ports at the beginning of struct xt_tcp and xt_udp: ranges of source and destination ports. */
function matchPorts(info: Info, packet: Packet, wanted: number, inverted: number): Answer {
  const { protocol, destinationPort, sourcePort } = packet
  if (protocol !== wanted) return false
  const [source, destination] = [
    { at: 0, port: sourcePort, isInverted: (inverted & 1) !== 0 },
    { at: 4, port: sourcePort === undefined ? destinationPort : undefined, isInverted: (inverted & 2) !== 0 },
  ]
  const holds = [source, destination].map(({ at, port, isInverted }): Answer => {
    const [least, most] = [info.u16(at), info.u16(at + 2)]
    if (least === 0 && most === 0xffff) return !isInverted
    if (port === undefined) return at === 4 && most < CLIENT_PORTS ? isInverted : undefined
    return (least <= port && port <= most) !== isInverted
  })
  return holds.includes(false) ? false : holds.every((each) => each === true) || undefined
}

/** Evaluates struct xt_multiport_v1: source or destination, the count, ports, whether the next ends a range. */
function matchMultiport(info: Info, packet: Packet): Answer {
  const { destinationPort } = packet
  if (isAnswer(packet)) return undefined
  const DESTINATION = 1
  let isFound = false
  for (let at = 0; at < Math.min(info.u8(1), 15); at++) {
    const port = info.u16(2 + 2 * at)
    const last = info.u8(32 + at) !== 0 ? info.u16(2 + 2 * ++at) : port
    isFound ||= port <= destinationPort && destinationPort <= last
  }
  if (info.u8(0) === DESTINATION) return isFound !== (info.u8(47) !== 0)
  return undefined // the source port
}

/** Evaluates the ICMP type and code, which is 0 for an echo: struct ipt_icmp and ip6t_icmp. */
function matchIcmp(info: Info, packet: Packet, wanted: number): Answer {
  const echo = icmpTypeOf(packet)
  if (packet.protocol !== wanted) return false
  const isAny = wanted === IPPROTO.icmp && info.u8(0) === 0xff
  const isOfType = isAny || (info.u8(0) === echo && info.u8(1) === 0)
  return isOfType !== ((info.u8(3) & 1) !== 0)
}

/** Evaluates address ranges: struct xt_iprange_mtinfo. */
function matchRange(info: Info, { source, destination }: Packet): Answer {
  const flags = info.u8(64)
  const isIn = (ip: Uint8Array, at: number) =>
    compareBytes(info.bytes.subarray(at, at + ip.length), ip) <= 0 &&
    compareBytes(ip, info.bytes.subarray(at + 16, at + 16 + ip.length)) <= 0
  if ((flags & 1) !== 0 && isIn(source, 0) === ((flags & 16) !== 0)) return false
  return (flags & 2) === 0 || isIn(destination, 32) !== ((flags & 32) !== 0)
}

function compareBytes(one: Uint8Array, other: Uint8Array): number {
  const at = one.findIndex((byte, index) => byte !== other[index])
  return at === -1 ? 0 : (one[at] ?? 0) - (other[at] ?? 0)
}

/**
 * Evaluates a list of recent addresses: struct xt_recent_mtinfo. `--set` always matches. For other options it is known
 * whether the list contains the source, but not since when.
 */
function matchRecent(info: Info, { source }: Packet, kernel: Kernel): Answer {
  const [operation, isInverted] = [info.u8(8), info.u8(9) !== 0]
  const SET = 2
  if ((operation & SET) !== 0) return !isInverted
  if (info.u8(210) !== 0) return undefined // compares the destination
  return kernel.isRecent(info.text(10), source) === false ? isInverted : undefined
}

/** Evaluates reverse path filtering: struct xt_rpfilter_info. Matches if the source's route uses the input link. */
function matchReversePath(info: Info, packet: Packet, kernel: Kernel): Answer {
  const [LOOSE, VALID_MARK, INVERT] = [1, 2, 8]
  const flags = info.u8(0)
  if ((flags & VALID_MARK) !== 0 && !isKnown(packet.mark)) return undefined
  const towards = kernel.linkTowards(packet.source, (flags & VALID_MARK) !== 0 ? markOf(packet) : undefined)
  const passes = towards !== undefined && ((flags & LOOSE) !== 0 || towards.name === packet.input)
  return passes !== ((flags & INVERT) !== 0)
}
