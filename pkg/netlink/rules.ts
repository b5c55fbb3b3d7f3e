import { decodeLatin1 } from "../engine/mod.ts"
import { AF_INET, type Cidr, type Family, formatCidr } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import type { Request } from "./channel.ts"
import { bytes, type Codec, text } from "./codec.ts"
import { dumpFamily } from "./family.ts"
import { i32, struct, u8, u16, u32, u64be } from "./integers.ts"
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h>, <linux/fib_rules.h> */
const RTM_NEWRULE = 32
const RTM_DELRULE = 33
const RTM_GETRULE = 34
/** FR_ACT_*: look up the table, or drop the packet. */
export const RuleAction = { ToTable: 1, Blackhole: 6, Unreachable: 7, Prohibit: 8 } as const
const FIB_RULE_INVERT = 2

/** struct fib_rule_hdr, <linux/fib_rules.h>, and the attributes after it. */
const ruleHeader = struct({
  family: u8,
  dstPrefix: u8,
  srcPrefix: u8,
  tos: u8,
  table: u8,
  reserved1: u8,
  reserved2: u8,
  action: u8,
  flags: u32,
})

/** A range of numbers from `first` to `last` inclusive. */
export interface NumberRange {
  first: number
  last: number
}

/** struct fib_rule_port_range, struct fib_rule_uid_range */
const portRange: Codec<NumberRange> = struct({ first: u16, last: u16 })
const userRange: Codec<NumberRange> = struct({ first: u32, last: u32 })

const ruleAttributes = attrs({
  dst: [1, bytes],
  src: [2, bytes],
  inputInterface: [3, text],
  priority: [6, u32],
  mark: [10, u32],
  tunnelId: [12, u64be],
  suppressGroup: [13, i32],
  suppressPrefixLength: [14, i32],
  table: [15, u32],
  mask: [16, u32],
  outputInterface: [17, text],
  l3Master: [19, u8], // FRA_L3MDEV
  users: [20, userRange], // FRA_UID_RANGE
  protocol: [21, u8],
  ipProtocol: [22, u8],
  sourcePorts: [23, portRange],
  destinationPorts: [24, portRange],
})
const rulePayload = payloadOf(ruleHeader, ruleAttributes)

/** A routing rule, which selects a table for packets that match all its selectors, or with `not`, for all others. */
export interface Rule {
  family: Family
  not?: boolean | undefined
  src?: Cidr | undefined
  dst?: Cidr | undefined
  inputInterface?: string | undefined
  outputInterface?: string | undefined
  /** The type of service in the IP header, all eight bits. */
  tos?: number | undefined
  mark?: number | undefined
  mask?: number | undefined
  /** IPPROTO_*: 6 TCP, 17 UDP. */
  ipProtocol?: number | undefined
  sourcePorts?: NumberRange | undefined
  destinationPorts?: NumberRange | undefined
  /** The user IDs of the sockets that send the packets. */
  users?: NumberRange | undefined
  tunnelId?: bigint | undefined
  /** The rule ignores routes whose prefix has at most this many bits: 0 ignores default routes. */
  suppressPrefixLength?: number | undefined
  /** The rule ignores routes with an output link of this group. */
  suppressGroup?: number | undefined
  /** The rule with the lowest number is evaluated first. */
  priority?: number | undefined
  /** The number of the table; 0 with `l3Master`. */
  table: number
  /** Selects the table of the VRF to which the packet's interface belongs, like `ip rule add l3mdev`. */
  l3Master?: boolean | undefined
  /** FR_ACT_*: `RuleAction.ToTable` if undefined. */
  action?: number | undefined
  /** RTPROT_*: the program that added the rule. */
  protocol?: number | undefined
}

/** Adds a rule, like `ip rule add from SRC table TABLE`. Throws `EEXIST` if the rule exists. */
export function addRule(route: NetlinkSocket, rule: Rule): void {
  const flags = NLM_F_CREATE | NLM_F_EXCL
  route.execute({ type: RTM_NEWRULE, flags, what: `add rule ${showRule(rule)}`, payload: encodeRule(rule) })
}

/** Returns the request of `ip rule del` with all given attributes, for `executeAll`; `ENOENT` if none matches. */
export function toDeleteRule(rule: Rule): Request {
  return { type: RTM_DELRULE, what: `delete rule ${showRule(rule)}`, payload: encodeRule(rule) }
}

/**
 * Returns the rules of a family, or of both, like `ip rule show`. With `ofOneSource`, returns only rules whose source is
 * a single address. `known` caches decoded rules by their bytes, because most namespaces have the same rules.
 */
export function listRules(
  route: NetlinkSocket,
  family: Family | undefined,
  { ofOneSource = false, known }: { ofOneSource?: boolean; known?: Map<string, Rule> } = {},
): Rule[] {
  const bits = family === AF_INET ? 32 : 128
  const payload = ruleHeader.encode({ family })
  return dumpFamily(route, family, { type: RTM_GETRULE, what: "list rules", payload }, (message) => {
    if (ofOneSource && message.payload[2] !== bits) return undefined
    return known?.getOrInsertComputed(decodeLatin1(message.payload), () => readRule(message)) ?? readRule(message)
  })
}

function encodeRule({
  family,
  not,
  src,
  dst,
  tos,
  table,
  l3Master,
  action,
  protocol,
  ...attributes
}: Rule): Uint8Array {
  const header = {
    family,
    dstPrefix: dst?.prefix,
    srcPrefix: src?.prefix,
    tos,
    table: table < 256 ? table : 0,
    action: action ?? RuleAction.ToTable,
    flags: not ? FIB_RULE_INVERT : 0,
  }
  const lookup = l3Master ? { l3Master: 1 } : { table } // the kernel refuses a rule with both attributes
  return rulePayload.encode(header, { src: src?.ip, dst: dst?.ip, ...attributes, ...lookup, protocol })
}

function readRule(message: Message): Rule {
  const { header, attributes } = rulePayload.decode(message.payload)
  const { src, dst, table, l3Master, suppressPrefixLength, suppressGroup, unknown: _, ...others } = attributes
  return {
    ...others,
    family: header.family as Family,
    not: (header.flags & FIB_RULE_INVERT) !== 0 || undefined,
    src: src && { ip: src, prefix: header.srcPrefix },
    dst: dst && { ip: dst, prefix: header.dstPrefix },
    tos: header.tos || undefined,
    suppressPrefixLength: ifAny(suppressPrefixLength),
    suppressGroup: ifAny(suppressGroup),
    table: table ?? header.table,
    l3Master: l3Master === 1 || undefined,
    action: header.action === RuleAction.ToTable ? undefined : header.action,
  }
}

/** Returns undefined for -1, with which the kernel reports a value that is not set. */
function ifAny(suppressed: number | undefined): number | undefined {
  return suppressed === -1 ? undefined : suppressed
}

function showRule({ not, src, dst, table, l3Master }: Rule): string {
  const from = src ? `from ${formatCidr(src)} ` : ""
  const to = dst ? `to ${formatCidr(dst)} ` : ""
  return `${not ? "not " : ""}${from}${to}${l3Master ? "l3mdev" : `table ${table}`}`
}
