import { u32 } from "../../pkg/netlink/mod.ts"
import { ifnameValue } from "../../pkg/nftables/mod.ts"
import { type Bits, isKnown, knownBits, unknownBits } from "./bits.ts"
import type { Kernel } from "./kernel.ts"
import type { Packet } from "./packet.ts"

/** `NFTA_FIB_F_*` and `enum nft_fib_result`, <linux/netfilter/nf_tables.h>. */
const F = { saddr: 1, mark: 4, iif: 8, oif: 16, present: 32 } as const
const RESULT = { oif: 1, oifname: 2, type: 3 } as const

/** Returns the value that `fib saddr|daddr [. mark] [. iif|oif] type|oif|oifname` loads, using the kernel's routes. */
export function fibOf(packet: Packet, kernel: Kernel, result: number, flags: number): Bits {
  if (kernel.isWithoutRoutes) return unknownBits("fib")
  const ip = (flags & F.saddr) !== 0 ? packet.source : packet.destination
  const link = (flags & F.iif) !== 0 ? packet.input : (flags & F.oif) !== 0 ? packet.output : undefined
  if (result === RESULT.type) return knownBits(u32.encode(kernel.addressType(ip, link)))
  const towards = kernel.linkTowards(ip, (flags & F.mark) === 0 ? undefined : markOf(packet))
  const found = towards !== undefined && (link === undefined || towards.name === link) ? towards : undefined
  if ((flags & F.present) !== 0) return knownBits(Uint8Array.of(found === undefined ? 0 : 1))
  if (result === RESULT.oif) return knownBits(u32.encode(found?.index ?? 0))
  if (result === RESULT.oifname) return knownBits(found === undefined ? new Uint8Array(16) : ifnameValue(found.name))
  return unknownBits("fib")
}

/** Returns a packet's mark for a route lookup, or undefined if unknown. */
export function markOf({ mark }: Packet): number | undefined {
  return isKnown(mark) ? u32.decode(mark.value.slice(0, 4)) : undefined
}
