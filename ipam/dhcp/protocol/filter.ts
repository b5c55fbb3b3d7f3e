import { ETH_P_IP, ETH_P_IPV6, encodeFilter, type FilterInstruction } from "../../../pkg/libc/mod.ts"
import { ETH_P_ARP, IPPROTO_ICMPV6, IPPROTO_UDP } from "./frames.ts"

/** Instructions of <linux/bpf_common.h>: loads of a half word, a byte, the IPv4 header's length to X; jumps; return. */
const Bpf = {
  Half: 0x28,
  Byte: 0x30,
  HalfAtX: 0x48,
  HeaderLength: 0xb1,
  JumpEqual: 0x15,
  JumpSet: 0x45,
  Return: 0x06,
} as const

/**
 * The maximum length of a received frame, which exceeds the 1500 bytes that clients allow servers. A neighbor on a
 * virtual link can send 64 KB in one frame, with thousands of routes; such a frame is truncated, and its datagram is
 * ignored.
 */
const longestFrame = 2048

const take: FilterInstruction = [Bpf.Return, 0, 0, longestFrame]
const drop: FilterInstruction = [Bpf.Return, 0, 0, 0]

/** Like `tcpdump -dd "udp dst port 68"`. */
const filter4: readonly FilterInstruction[] = [
  [Bpf.Half, 0, 0, 12], // type
  [Bpf.JumpEqual, 0, 8, ETH_P_IP],
  [Bpf.Byte, 0, 0, 14 + 9], // protocol
  [Bpf.JumpEqual, 0, 6, IPPROTO_UDP],
  [Bpf.Half, 0, 0, 14 + 6], // fragment
  [Bpf.JumpSet, 4, 0, 0x1fff],
  [Bpf.HeaderLength, 0, 0, 14],
  [Bpf.HalfAtX, 0, 0, 14 + 2], // destination port
  [Bpf.JumpEqual, 0, 1, 68],
  take,
  drop,
]

/** Like `tcpdump -dd "arp or (udp dst port 68)"`. Only clients that probe use it: large networks have much ARP. */
const filter4WithArp: readonly FilterInstruction[] = [
  [Bpf.Half, 0, 0, 12], // type
  [Bpf.JumpEqual, 0, 1, ETH_P_ARP],
  take,
  ...filter4,
]

/** Returns a filter for IPv6 packets with this next header and `number` in the field that `load` reads. */
function filterIpv6(nextHeader: number, load: FilterInstruction, number: number): readonly FilterInstruction[] {
  return [
    [Bpf.Half, 0, 0, 12], // type
    [Bpf.JumpEqual, 0, 5, ETH_P_IPV6],
    [Bpf.Byte, 0, 0, 14 + 6], // next header
    [Bpf.JumpEqual, 0, 3, nextHeader],
    load,
    [Bpf.JumpEqual, 0, 1, number],
    take,
    drop,
  ]
}

/** Like `tcpdump -dd "ip6 and udp dst port 546"`. */
const filter6 = filterIpv6(IPPROTO_UDP, [Bpf.Half, 0, 0, 14 + 40 + 2], 546)
/** Like `tcpdump -dd "icmp6[icmp6type] == icmp6-routeradvert"`. */
const filterRouter = filterIpv6(IPPROTO_ICMPV6, [Bpf.Byte, 0, 0, 14 + 40], 134)

const filters = { dhcp: filter4, "dhcp and arp": filter4WithArp, dhcpv6: filter6, router: filterRouter } as const

/** The kinds of frames that a packet socket receives: DHCPv4, DHCPv4 and ARP, DHCPv6, or router advertisements. */
export type Heard = keyof typeof filters

/** Returns the filter of a packet socket (struct sock_filter) that accepts only these frames. */
export function socketFilter(heard: Heard): Uint8Array {
  return encodeFilter(filters[heard])
}
