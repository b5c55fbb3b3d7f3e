import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { show } from "./addresses.ts"
import { attrs } from "./attrs.ts"
import { bytes, concat, struct, text, u8, u32 } from "./codec.ts"
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
const RTM_NEWRULE = 32
const RTM_DELRULE = 33
const RTM_GETRULE = 34
const FR_ACT_TO_TBL = 1

/** struct fib_rule_hdr, <linux/fib_rules.h> */
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

/** A policy routing rule that looks a table up. */
export interface Rule {
  family: typeof AF_INET | typeof AF_INET6
  src?: { ip: Uint8Array; prefix: number }
  dst?: { ip: Uint8Array; prefix: number }
  inputInterface?: string
  outputInterface?: string
  mark?: number
  mask?: number
  /** The lower is looked at first. */
  priority?: number
  table: number
  /** RTPROT_*: which program has made it. */
  protocol?: number
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
export function listRules(route: NetlinkSocket, family: typeof AF_INET | typeof AF_INET6): Rule[] {
  const zero = { dstPrefix: 0, srcPrefix: 0, tos: 0, table: 0, reserved1: 0, reserved2: 0, action: 0, flags: 0 }
  const payload = ruleHeader.encode({ family, ...zero })
  return route.dump({ type: RTM_GETRULE, what: "list rules", payload }, readRule)
}

function encodeRule(rule: Rule): Uint8Array {
  const header = {
    family: rule.family,
    dstPrefix: rule.dst?.prefix ?? 0,
    srcPrefix: rule.src?.prefix ?? 0,
    tos: 0,
    table: rule.table < 256 ? rule.table : 0,
    reserved1: 0,
    reserved2: 0,
    action: FR_ACT_TO_TBL,
    flags: 0,
  }
  const { inputInterface, outputInterface, priority, mark, mask, table, protocol } = rule
  const attributes = {
    src: rule.src?.ip,
    dst: rule.dst?.ip,
    inputInterface,
    outputInterface,
    priority,
    mark,
    mask,
    table,
    protocol,
  }
  return concat([ruleHeader.encode(header), ruleAttributes.encode(attributes)])
}

function readRule(message: Message): Rule {
  const header = ruleHeader.decode(message.payload.subarray(0, ruleHeader.size))
  const found = ruleAttributes.decode(message.payload.subarray(ruleHeader.size))
  const rule: Rule = {
    family: header.family === AF_INET ? AF_INET : AF_INET6,
    table: found.table ?? header.table,
  }
  if (found.src) rule.src = { ip: found.src, prefix: header.srcPrefix }
  if (found.dst) rule.dst = { ip: found.dst, prefix: header.dstPrefix }
  if (found.inputInterface !== undefined) rule.inputInterface = found.inputInterface
  if (found.outputInterface !== undefined) rule.outputInterface = found.outputInterface
  if (found.priority !== undefined) rule.priority = found.priority
  if (found.mark !== undefined) rule.mark = found.mark
  if (found.mask !== undefined) rule.mask = found.mask
  if (found.protocol !== undefined) rule.protocol = found.protocol
  return rule
}

function showRule(rule: Rule): string {
  return `${rule.src ? `from ${show(rule.src)} ` : ""}${rule.dst ? `to ${show(rule.dst)} ` : ""}table ${rule.table}`
}
