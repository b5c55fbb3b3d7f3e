import { attrs, listOf, payloadOf } from "./attrs.ts"
import { bytes, type Codec, codec, type Infer, text } from "./codec.ts"
import { i32, struct, u8, u16, u16be, u32, u32be, u64 } from "./integers.ts"

/** struct tcmsg, <linux/rtnetlink.h>, with which every message of traffic control begins. */
export const trafficHeader = struct({
  family: u8,
  pad1: u8,
  pad2: u16,
  index: i32,
  handle: u32,
  parent: u32,
  info: u32,
})

/** `TCA_*`. `kind` decides `options`: see `qdiscKinds`, `filterKinds`. Only filters have a `chain`; the first is 0. */
export const trafficAttributes = attrs({ kind: [1, text], options: [2, bytes], chain: [11, u32] })

/** The payload of a message of traffic control. */
export const trafficPayload = payloadOf(trafficHeader, trafficAttributes)

/** The parent of a root qdisc, <linux/pkt_sched.h>. */
export const TC_H_ROOT = 0xffffffff
/** The parent of the qdiscs "ingress" and "clsact". */
export const TC_H_INGRESS = 0xfffffff1
/** The handle `ffff:` of the qdiscs "ingress" and "clsact", and the parent of the filters of "ingress". */
export const INGRESS_HANDLE = 0xffff0000
/** The parent of filters of "clsact" for arriving packets, `ffff:fff2`. The qdisc "ingress" accepts it as well. */
export const CLSACT_INGRESS = 0xfffffff2
/** The parent of filters of "clsact" for packets that the link sends, `ffff:fff3`. */
export const CLSACT_EGRESS = 0xfffffff3

/** struct tc_tbf_qopt, with struct tc_ratespec twice: eight bytes for an unused rate table, and bytes per second. */
const tbfParameters = struct({
  table: u64,
  rate: u32,
  peakTable: u64,
  peakRate: u32,
  limit: u32, // the number of bytes that may wait
  buffer: u32, // the burst: the time to send it at the rate, in ticks of 64 ns
  mtu: u32,
})

/** struct tc_htb_opt */
const htbClassParameters = struct({
  table: u64,
  rate: u32,
  ceilTable: u64,
  ceil: u32,
  buffer: u32,
  ceilBuffer: u32,
  quantum: u32,
  level: u32,
  priority: u32,
})

/** The kinds of qdiscs that the suite creates or reads, each with its `TCA_OPTIONS`, <linux/pkt_sched.h>. */
export const qdiscKinds = {
  tbf: attrs({ parameters: [1, tbfParameters], rate64: [4, u64], burst: [6, u32] }), // TCA_TBF_*
  htb: attrs({
    glob: [2, struct({ version: u32, rateToQuantum: u32, defaultClass: u32, debug: u32, directPackets: u32 })], // TCA_HTB_INIT
  }),
  bfifo: struct({ limit: u32 }), // bytes
  ingress: attrs({}),
} as const

export type QdiscKind = keyof typeof qdiscKinds

/** `TCA_OPTIONS` of a kind of qdisc. */
export type QdiscOptions<K extends QdiscKind> = Infer<(typeof qdiscKinds)[K]>

/** `TCA_OPTIONS` of a class of htb, `TCA_HTB_*`. */
export const htbClass = attrs({ parameters: [1, htbClassParameters], rate64: [6, u64], ceil64: [7, u64] })

/** `TCA_MIRRED_*`: struct tc_mirred. `action` is the verdict for the original packet, TC_ACT_*. */
const mirredOptions = attrs({
  parameters: [
    2,
    struct({ index: u32, capabilities: u32, action: i32, references: i32, bindings: i32, where: i32, ifindex: u32 }),
  ],
})

/** The actions of mirred, <linux/tc_act/tc_mirred.h>. */
const TCA_EGRESS_REDIR = 1
const TCA_INGRESS_REDIR = 3
/** Verdicts, <linux/pkt_cls.h>: SHOT drops the packet; STOLEN means that the action handles the packet. */
export const TC_ACT_SHOT = 2
const TC_ACT_STOLEN = 4

/** `TCA_GACT_*`: struct tc_gact, whose `action` is a TC_ACT_* verdict. */
const gactOptions = attrs({
  parameters: [2, struct({ index: u32, capabilities: u32, action: i32, references: i32, bindings: i32 })],
})

/** An action. Its options are bytes in the format of its kind. */
const action = attrs({ kind: [1, text], options: [2, bytes] })
export type Action = Infer<typeof action>

/** Returns an action that redirects packets to another link, like `action mirred egress redirect dev NAME`. */
export function redirectTo(ifindex: number): Action {
  const parameters = { action: TC_ACT_STOLEN, where: TCA_EGRESS_REDIR, ifindex }
  const options = mirredOptions.encode({ parameters })
  return { kind: "mirred", options }
}

/** Returns the index of an egress redirect's link; 0 if the link no longer exists, undefined for another action. */
export function findRedirect(action: Action): number | undefined {
  const parameters = mirredParameters(action)
  return parameters?.where === TCA_EGRESS_REDIR ? parameters.ifindex : undefined
}

/** Returns the index of the link to which an action redirects packets, also for `mirred ingress redirect`. */
export function findTarget(action: Action): number | undefined {
  const parameters = mirredParameters(action)
  return parameters?.where === TCA_INGRESS_REDIR ? parameters.ifindex : findRedirect(action)
}

function mirredParameters({ kind, options }: Action) {
  return kind === "mirred" && options ? mirredOptions.decode(options).parameters : undefined
}

/** Reports whether an action drops packets, like `action drop`. */
export function isDrop({ kind, options }: Action): boolean {
  return kind === "gact" && options !== undefined && gactOptions.decode(options).parameters?.action === TC_ACT_SHOT
}

/** Four bytes of a packet that a u32 filter compares. The offset counts from the network header. */
export interface U32Key {
  mask: number
  value: number
  offset: number
}

const selectorHeader = struct({
  flags: u8,
  offsetShift: u8,
  keys: u8,
  pad: u8,
  offsetMask: u16be,
  offset: u16,
  hashOffset: u32,
  hashMask: u32be,
})
const selectorKey = struct({ mask: u32be, value: u32be, offset: i32, offsetMask: i32 })
const TC_U32_TERMINAL = 1

/** struct tc_u32_sel: all keys must match. A key with mask 0 matches every packet. */
const selector: Codec<U32Key[]> = codec(
  (keys, to) => {
    selectorHeader.append({ flags: TC_U32_TERMINAL, keys: keys.length }, to)
    for (const { mask, value, offset } of keys) selectorKey.append({ mask, value, offset }, to)
  },
  (from, start, end) => {
    const firstKey = start + selectorHeader.size
    const count = selectorHeader.read(from, start, Math.min(firstKey, end)).keys
    return Array.from({ length: count }, (_, index) => {
      const at = firstKey + index * selectorKey.size
      const { mask, value, offset } = selectorKey.read(from, at, Math.min(at + selectorKey.size, end))
      return { mask, value, offset }
    })
  },
)

/** The actions of a filter. A request can contain only one. */
const actions = listOf(1, action)

/** The kinds of filters, each with its `TCA_OPTIONS`, <linux/pkt_cls.h>. */
export const filterKinds = {
  u32: attrs({ classId: [1, u32], selector: [5, selector], police: [6, bytes], actions: [7, actions] }), // TCA_U32_*
  matchall: attrs({ classId: [1, u32], actions: [2, actions] }), // TCA_MATCHALL_*
  flower: attrs({ classId: [1, u32], actions: [3, actions] }), // TCA_FLOWER_*
  basic: attrs({ classId: [1, u32], actions: [3, actions] }), // TCA_BASIC_*
  fw: attrs({ classId: [1, u32], actions: [4, actions] }), // TCA_FW_*
  bpf: attrs({
    actions: [1, actions],
    classId: [3, u32],
    code: [5, bytes],
    name: [7, text],
    flags: [8, u32],
    id: [11, u32],
  }), // TCA_BPF_*
} as const

export type FilterKind = keyof typeof filterKinds

/** `TCA_OPTIONS` of a kind of filter. */
export type FilterOptions<K extends FilterKind> = Infer<(typeof filterKinds)[K]>
