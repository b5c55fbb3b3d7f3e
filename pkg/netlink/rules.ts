import { type Cidr, type Family, formatCidr } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import { bytes, struct, text, u8, u32 } from "./codec.ts"
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTM_NEWRULE = 32
const RTM_DELRULE = 33
const RTM_GETRULE = 34
const FR_ACT_TO_TBL = 1

/** struct fib_rule_hdr, <linux/fib_rules.h>, and what follows it. */
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

const ruleAttributes = attrs({
  dst: [1, bytes],
  src: [2, bytes],
  inputInterface: [3, text],
  priority: [6, u32],
  mark: [10, u32],
  table: [15, u32],
  mask: [16, u32],
  outputInterface: [17, text],
  protocol: [21, u8],
})
const rulePayload = payloadOf(ruleHeader, ruleAttributes)

/** A policy routing rule that looks a table up. */
export interface Rule {
  family: Family
  src?: Cidr | undefined
  dst?: Cidr | undefined
  inputInterface?: string | undefined
  outputInterface?: string | undefined
  mark?: number | undefined
  mask?: number | undefined
  /** The lower is looked at first. */
  priority?: number | undefined
  table: number
  /** RTPROT_*: which program has made it. */
  protocol?: number | undefined
}

/** Adds a rule, like `ip rule add from SRC table TABLE`. Throws `EEXIST` when the same rule is there. */
export function addRule(route: NetlinkSocket, rule: Rule): void {
  const flags = NLM_F_CREATE | NLM_F_EXCL
  route.execute({ type: RTM_NEWRULE, flags, what: `add rule ${showRule(rule)}`, payload: encodeRule(rule) })
}

/** Deletes the rule that matches all that is given, like `ip rule del`. Throws `ENOENT` when there is none. */
export function deleteRule(route: NetlinkSocket, rule: Rule): void {
  route.execute({ type: RTM_DELRULE, what: `delete rule ${showRule(rule)}`, payload: encodeRule(rule) })
}

/** All rules of a family, like `ip rule show`. */
export function listRules(route: NetlinkSocket, family: Family): Rule[] {
  const payload = ruleHeader.encode({ family })
  return route.dump({ type: RTM_GETRULE, what: "list rules", payload }, readRule)
}

function encodeRule({ family, src, dst, table, protocol, ...attributes }: Rule): Uint8Array {
  const header = {
    family,
    dstPrefix: dst?.prefix,
    srcPrefix: src?.prefix,
    table: table < 256 ? table : 0,
    action: FR_ACT_TO_TBL,
  }
  return rulePayload.encode(header, { src: src?.ip, dst: dst?.ip, ...attributes, table, protocol })
}

function readRule(message: Message): Rule {
  const { header, attributes } = rulePayload.decode(message.payload)
  const { src, dst, inputInterface, outputInterface, priority, mark, mask, protocol } = attributes
  return {
    family: header.family as Family,
    src: src && { ip: src, prefix: header.srcPrefix },
    dst: dst && { ip: dst, prefix: header.dstPrefix },
    inputInterface,
    outputInterface,
    priority,
    mark,
    mask,
    table: attributes.table ?? header.table,
    protocol,
  }
}

function showRule(rule: Rule): string {
  return `${rule.src ? `from ${formatCidr(rule.src)} ` : ""}${rule.dst ? `to ${formatCidr(rule.dst)} ` : ""}table ${rule.table}`
}
