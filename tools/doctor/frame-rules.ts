import { extensionAttributes } from "../../pkg/nftables/mod.ts"
import { AF_INET, type Cidr, familyOf, formatIp, parseCidr } from "../../pkg/types/mod.ts"
import { comparesWith, type FilterView } from "../node/mod.ts"
import { valuesOf } from "./filters.ts"
import type { Patient } from "./finding.ts"

type Rule = FilterView["rules"][number]
type Expression = Rule["expressions"][number]

/** `NFT_CMP_EQ`, `NFT_PAYLOAD_*_HEADER` and `NFT_META_*`, <linux/netfilter/nf_tables.h>. */
const EQUAL = 0
const [LINK_HEADER, NETWORK_HEADER, TRANSPORT_HEADER] = [0, 1, 2]
const [META_PROTOCOL, META_IIFTYPE, META_NFPROTO] = [1, 8, 15]
/** ETH_P_*, <linux/if_ether.h>, and where a frame has it. */
const ETHER_TYPES: Readonly<Record<string, FrameKind>> = { "08:06": "arp", "08:00": "ip", "86:dd": "ip6" }
const ETHER_TYPE_OFFSET = 12
/** Where IPv4 and IPv6 have the source's address. */
const SOURCE_OFFSETS = [12, 8]

type FrameKind = "arp" | "ip" | "ip6"
/** "container": a port, an address or a MAC of one. "any": frames that every container needs. "kind": what nft asks before an address. */
type Asked = "container" | "any" | "kind" | undefined

/** What a rule may have that drops all that it is asked about. */
const PLAIN = new Set(["meta", "payload", "cmp", "counter", "log", "immediate", "reject", "bitwise", "match"])

/**
 * Whether all that a rule for frames asks is a port, an address or a MAC of containers, or whether it is ARP or IP: it drops all frames of
 * a container, or all of a kind that no container does without. Comparisons with what is unequal are checks of MACs, and none of these.
 */
export function aboutContainers(patient: Patient): (rule: Rule) => boolean {
  const values = valuesOf(patient)
  const macs = new Set(patient.examined.flatMap(({ interfaces }) => interfaces.flatMap(({ link }) => link?.mac ?? [])))
  const networks = patient.attachments.flatMap(({ addresses }) => addresses.flatMap((text) => parseCidr(text) ?? []))
  const kinds = new Set<FrameKind>(networks.flatMap(({ ip }) => (familyOf(ip) === AF_INET ? ["arp", "ip"] : ["ip6"])))
  const ofHost = new Set(
    patient.node.links.flatMap(({ nsid, addresses }) =>
      nsid === undefined ? addresses.map((address) => address.split("/")[0]) : [],
    ),
  )

  const askedBy = (rule: Rule, at: number): Asked => {
    const value = equalTo(rule.expressions[at])
    if (value === undefined) return undefined
    const before = rule.expressions[at - 1]
    const kind = kindAsked(before, value)
    if (isOfHeader(before, TRANSPORT_HEADER)) return undefined
    if (kind !== undefined) return kind !== "device" && kinds.has(kind) ? "any" : "kind"
    const isHostsOwn = isSource(before) && [4, 16].includes(value.length) && ofHost.has(formatIp(value))
    if (isHostsOwn) return undefined // a check that no container takes the gateway's address
    if (isOfHeader(before, NETWORK_HEADER) || value.length < 6 || value.length > 14) {
      const alone = { ...rule, expressions: rule.expressions.slice(Math.max(0, at - 1), at + 1) }
      return comparesWith(alone, values) ? "container" : undefined
    }
    // nft compares parts of the header that are side by side at once: both MACs, a MAC and the type.
    const parts = partsOf(value)
    const isAllOfThem = parts.every((part) => part in ETHER_TYPES || macs.has(part))
    return isAllOfThem && parts.some((part) => macs.has(part)) ? "container" : undefined
  }
  return (rule) => {
    if (!rule.expressions.every(({ name }) => PLAIN.has(name))) return false
    const asked = rule.expressions.flatMap(({ name, data }, at) => {
      if (name === "cmp") return [askedBy(rule, at)]
      return data instanceof Uint8Array && (name as string) === "match" ? [askedByEbtables(data, networks)] : []
    })
    const areAll = asked.every((each) => each !== undefined)
    return areAll && asked.some((each) => each === "container" || each === "any")
  }
}

/** The kind of frame that an expression compares, where it is one: `meta protocol`, `ether type`, `meta nfproto`, or the device's type. */
function kindAsked(before: Expression | undefined, value: Uint8Array): FrameKind | "device" | undefined {
  if (before === undefined || before.data instanceof Uint8Array) return undefined
  if (before.name === "meta") {
    if (before.data.key === META_IIFTYPE) return "device"
    if (before.data.key === META_NFPROTO) return value[0] === AF_INET ? "ip" : "ip6"
    return before.data.key === META_PROTOCOL ? ETHER_TYPES[partsOf(value)[0] ?? ""] : undefined
  }
  if (before.name !== "payload" || before.data.base !== LINK_HEADER) return undefined
  return before.data.offset === ETHER_TYPE_OFFSET && value.length === 2
    ? ETHER_TYPES[partsOf(value)[0] ?? ""]
    : undefined
}

function isOfHeader(before: Expression | undefined, base: number): boolean {
  return before?.name === "payload" && !(before.data instanceof Uint8Array) && before.data.base === base
}

function isSource(before: Expression | undefined): boolean {
  if (before?.name !== "payload" || before.data instanceof Uint8Array) return false
  return isOfHeader(before, NETWORK_HEADER) && SOURCE_OFFSETS.includes(before.data.offset ?? 0)
}

/** The value that something of the frame has to be equal to. */
function equalTo(expression: Expression | undefined): Uint8Array | undefined {
  if (expression?.name !== "cmp" || expression.data instanceof Uint8Array) return undefined
  return (expression.data.op ?? EQUAL) === EQUAL ? expression.data.data?.value : undefined
}

/** MACs, and the rest, as text. */
function partsOf(value: Uint8Array): string[] {
  const bytes = [...value].map((byte) => byte.toString(16).padStart(2, "0"))
  return [0, 6, 12].flatMap((at) => (at < bytes.length ? [bytes.slice(at, at + 6).join(":")] : []))
}

/** The addresses in a match of ebtables: where they and their masks are, and the bits that say which of them count. */
interface Layout {
  readonly length: 4 | 16
  /** Where `bitmask` is; the inversions follow it. */
  readonly bits: number
  readonly addresses: readonly { readonly bit: number; readonly at: number; readonly mask: number }[]
  /** Bits of what may be asked besides: the kind of ARP. */
  readonly besides: number
}

/** struct ebt_ip_info, ebt_ip6_info and ebt_arp_info, <linux/netfilter_bridge/ebt_*.h> */
const ebtables: Readonly<Record<string, Layout>> = {
  ip: {
    length: 4,
    bits: 18,
    addresses: [
      { bit: 1, at: 0, mask: 8 },
      { bit: 2, at: 4, mask: 12 },
    ],
    besides: 0,
  },
  ip6: {
    length: 16,
    bits: 66,
    addresses: [
      { bit: 1, at: 0, mask: 32 },
      { bit: 2, at: 16, mask: 48 },
    ],
    besides: 0,
  },
  arp: {
    length: 4,
    bits: 48,
    addresses: [
      { bit: 8, at: 8, mask: 12 },
      { bit: 16, at: 16, mask: 20 },
    ],
    besides: 7,
  },
}

/** What a match of iptables-nft's ebtables asks: the addresses of IP and ARP are not compared by nf_tables itself. */
function askedByEbtables(data: Uint8Array, networks: readonly Cidr[]): Asked {
  const { name = "", info = new Uint8Array(0) } = extensionAttributes.decode(data)
  const layout = Object.hasOwn(ebtables, name) ? ebtables[name] : undefined
  const [bits = 0, inversions = 0] = info.subarray(layout?.bits)
  if (layout === undefined || info.length < layout.bits + 2 || inversions !== 0) return undefined
  const used = layout.addresses.filter(({ bit }) => (bits & bit) !== 0)
  if ((bits & ~(layout.besides | used.reduce((sum, { bit }) => sum | bit, 0))) !== 0) return undefined
  if (used.length === 0) return "kind"
  const has = ({ at, mask }: (typeof used)[number]) =>
    networks.some(
      ({ ip }) => ip.length === layout.length && ip.every((byte, n) => (byte & (info[mask + n] ?? 0)) === info[at + n]),
    )
  return used.every(has) ? "container" : undefined
}
