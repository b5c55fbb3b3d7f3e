import { u32 } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import { type Action, DROP, type Mapping } from "./actions.ts"
import { type Bits, maskedBits } from "./bits.ts"
import type { Packet } from "./packet.ts"

/** Targets that neither decide about the packet nor change values that rules read. */
const WITHOUT_EFFECT = new Set(
  "LOG NFLOG ULOG AUDIT TRACE TCPMSS TCPOPTSTRIP CHECKSUM TOS DSCP ECN CLASSIFY SET RATEEST IDLETIMER LED TEE SECMARK CONNSECMARK".split(
    " ",
  ),
)

/** The outcome of an iptables target: an action, a changed packet, or neither. */
interface Done {
  readonly action?: Action | undefined
  readonly packet?: Packet
  /** An effect that this tool does not evaluate. */
  readonly notJudged?: string
}

/** Evaluates an iptables target by its name in the kernel, with a struct of <linux/netfilter/xt_*.h>. */
export function targetOf(name: string, revision: number, info: Uint8Array, packet: Packet): Done {
  const view = new DataView(info.buffer, info.byteOffset, info.length)
  const isIpv4 = familyOf(packet.source) === AF_INET
  try {
    switch (name) {
      case "REJECT":
        return { action: DROP }
      case "MASQUERADE":
        return { action: { kind: "source", from: "output", isOpen: false } }
      case "DNAT":
        return { action: mappingOf("destination", info, revision, isIpv4) }
      case "SNAT":
        return { action: mappingOf("source", info, revision, isIpv4) }
      case "REDIRECT":
        return { action: { ...mappingOf("destination", info, revision, isIpv4), ip: undefined, from: "input" } }
      case "MARK": // struct xt_mark_tginfo2
        return { packet: { ...packet, mark: setBits(packet.mark, view.getUint32(0, true), view.getUint32(4, true)) } }
      case "CONNMARK":
        return { packet: connectionMarked(view, packet) }
      case "TTL":
      case "HL":
        return { notJudged: "a change of the TTL" }
      case "NOTRACK":
        return { packet: { ...packet, tracking: "untracked" } }
      case "CT": // struct xt_ct_target_info: XT_CT_NOTRACK
        if ((view.getUint16(0, true) & 1) !== 0) return { packet: { ...packet, tracking: "untracked" } }
        return view.getUint16(2, true) === 0 ? {} : { notJudged: "a zone of connections" }
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  return WITHOUT_EFFECT.has(name) ? {} : { action: { kind: "other", what: name } }
}

/** Returns (mark & ~mask) ^ value. */
function setBits(mark: Bits, value: number, mask: number): Bits {
  return maskedBits(mark, u32.encode(~mask >>> 0), u32.encode(value))
}

/** Evaluates struct xt_connmark_tginfo1: set, save or restore the mark. */
function connectionMarked(view: DataView, packet: Packet): Packet {
  const [value, ctMask, mask] = [0, 4, 8].map((at) => view.getUint32(at, true)) as [number, number, number]
  const [SET, SAVE] = [0, 1]
  const mode = view.getUint8(12)
  if (mode === SET) return { ...packet, connectionMark: setBits(packet.connectionMark, value, ctMask) }
  const [from, fromMask, to, toMask] =
    mode === SAVE
      ? [packet.mark, mask, packet.connectionMark, ctMask]
      : [packet.connectionMark, ctMask, packet.mark, mask]
  const kept = maskedBits(to, u32.encode(~toMask >>> 0), new Uint8Array(4))
  const taken = maskedBits(from, u32.encode(fromMask), new Uint8Array(4))
  const joined: Bits = {
    value: kept.value.map((byte, at) => byte ^ (taken.value[at] ?? 0)),
    known: kept.known.map((byte, at) => byte & (taken.known[at] ?? 0)),
    what: "the mark",
  }
  return mode === SAVE ? { ...packet, connectionMark: joined } : { ...packet, mark: joined }
}

/** `NF_NAT_RANGE_*` */
const MAP_IPS = 1
const PROTO_SPECIFIED = 2

/**
 * Reads the new address of DNAT and SNAT: struct nf_nat_range. Older revisions for IPv4 have
 * nf_nat_ipv4_multi_range_compat, which begins with a count. Throws `RangeError` for a struct that is too short.
 */
function mappingOf(kind: Mapping["kind"], info: Uint8Array, revision: number, isIpv4: boolean): Mapping {
  const view = new DataView(info.buffer, info.byteOffset, info.length)
  const isOld = revision === 0 && isIpv4
  const [flagsAt, minAt, maxAt, portAt] = isOld ? [4, 8, 12, 16] : [0, 4, 20, 36]
  const size = isIpv4 ? 4 : 16
  const flags = view.getUint32(flagsAt, true)
  const [min, max] = [minAt, maxAt].map((at) => info.slice(at, at + size)) as [Uint8Array, Uint8Array]
  const [first, last] = [view.getUint16(portAt), view.getUint16(portAt + 2)]
  const hasIp = (flags & MAP_IPS) !== 0
  const hasPort = (flags & PROTO_SPECIFIED) !== 0
  return {
    kind,
    ...(hasIp ? { ip: min } : {}),
    ...(hasPort ? { port: first } : {}),
    from: "rule",
    isOpen: (hasIp && min.toHex() !== max.toHex()) || (hasPort && first !== last),
  }
}
