import { u32 } from "../../pkg/netlink/mod.ts"
import { dataTypes, extensionAttributes, type FoundRule, ifnameValue } from "../../pkg/nftables/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"

/** A packet at one hook, as rules see it. */
export interface Packet {
  readonly source: Uint8Array
  readonly destination: Uint8Array
  /** `IPPROTO_*` */
  readonly protocol: number
  readonly destinationPort: number
  readonly input: string
  readonly output: string
  /** Whether the destination is an address of the host. */
  readonly isLocal: boolean
  /** Whether its destination was changed on the way. */
  readonly isMapped: boolean
}

/** What a rule does with a packet. "perhaps": it looks at what cannot be known here, and would then do `verdict`. */
export interface Evaluated {
  readonly matches: "yes" | "no" | "perhaps"
  readonly verdict?: "accept" | "drop" | "return" | { readonly jump: string } | "masquerade" | "nat"
}

/** Whether a set of the rule's table has a key; undefined when that cannot be told. */
export type HasElement = (set: string, key: Uint8Array) => boolean | undefined

/** `enum nft_meta_keys`, `enum nft_ct_keys`, `enum nft_cmp_ops`, `enum nft_verdicts`; <linux/netfilter/nf_tables.h>. */
const Meta = { mark: 3, iifname: 6, oifname: 7, nfproto: 15, l4proto: 16 } as const
const Ct = { state: 0, direction: 1, status: 2 } as const
const CT_STATE_NEW = 8
const CT_STATUS_DNAT = 32
const VERDICTS: Readonly<Record<number, "accept" | "drop" | "return">> = {
  0: "drop",
  1: "accept",
  [-5 >>> 0]: "return",
}
/** Bytes of all registers. */
const REGISTERS = 16 * 5

/** Evaluates a rule for a packet that begins a connection, as the kernel does: expression after expression, on registers. */
export function evaluate(rule: FoundRule, packet: Packet, hasElement: HasElement): Evaluated {
  const registers = new Uint8Array(REGISTERS)
  const unknown = new Set<number>()
  let isSure = true
  for (const { name, data } of rule.expressions) {
    if (data instanceof Uint8Array) {
      if (name === "reject") return { matches: isSure ? "yes" : "perhaps", verdict: "drop" }
      if (name === "redir" || name === "tproxy") return { matches: isSure ? "yes" : "perhaps", verdict: "nat" }
      const isComment = name === "match" && extensionAttributes.decode(data).name === "comment" // of iptables
      if (!isComment && !["log", "notrack", "objref", "last"].includes(name)) isSure = false
      continue
    }
    const loaded = loadedBy(name, data as never, packet)
    if (loaded !== undefined) {
      const { dreg = 1 } = data as { dreg?: number }
      if (loaded === "unknown") unknown.add(dreg)
      else {
        unknown.delete(dreg)
        registers.set(loaded, offsetOf(dreg))
      }
      continue
    }
    switch (name) {
      case "bitwise": {
        const { sreg = 1, dreg = 1, mask, xor, length = 4 } = data as Bitwise
        if (unknown.has(sreg)) unknown.add(dreg)
        for (let at = 0; at < length; at++) {
          const byte = (registers[offsetOf(sreg) + at] ?? 0) & (mask?.value?.[at] ?? 0xff)
          registers[offsetOf(dreg) + at] = byte ^ (xor?.value?.[at] ?? 0)
        }
        break
      }
      case "cmp": {
        const { sreg = 1, op = 0, data: operand } = data as Compare
        const value = operand?.value ?? new Uint8Array(0)
        if (unknown.has(sreg)) isSure = false
        else if (!holds(op, compare(registers.subarray(offsetOf(sreg)), value))) return { matches: "no" }
        break
      }
      case "lookup": {
        const { set = "", sreg = 1, dreg, flags = 0 } = data as Lookup
        const found = unknown.has(sreg) ? undefined : hasElement(set, registers.subarray(offsetOf(sreg)))
        if (dreg !== undefined) unknown.add(dreg) // what a map leads to
        if (found === undefined) isSure = false
        else if (found === ((flags & 1) === 1)) return { matches: "no" }
        break
      }
      case "immediate": {
        const verdict = (data as Immediate).data?.verdict
        if (verdict === undefined) break
        const known = verdict.chain === undefined ? VERDICTS[verdict.code ?? 0] : { jump: verdict.chain }
        return { matches: isSure ? "yes" : "perhaps", ...(known === undefined ? {} : { verdict: known }) }
      }
      case "masq":
        return { matches: isSure ? "yes" : "perhaps", verdict: "masquerade" }
      case "nat":
        return { matches: isSure ? "yes" : "perhaps", verdict: "nat" }
    }
  }
  return { matches: isSure ? "yes" : "perhaps" }
}

interface Bitwise {
  sreg?: number
  dreg?: number
  length?: number
  mask?: { value?: Uint8Array }
  xor?: { value?: Uint8Array }
}
interface Compare {
  sreg?: number
  op?: number
  data?: { value?: Uint8Array }
}
interface Lookup {
  set?: string
  sreg?: number
  dreg?: number
  flags?: number
}
interface Immediate {
  data?: { verdict?: { code?: number; chain?: string } }
}

/** Registers 1 to 4 have 16 bytes each, 8 to 23 are the same bytes as words; `enum nft_registers`. */
function offsetOf(register: number): number {
  return register < 8 ? 16 * register - 16 : 4 * (register - 8)
}

/** The bytes that an expression loads; "unknown" for what cannot be known; undefined for an expression that loads nothing. */
function loadedBy(
  name: string,
  data: Record<string, number | undefined>,
  packet: Packet,
): Uint8Array | "unknown" | undefined {
  if (name === "payload" && data.dreg !== undefined) return payloadOf(packet, data)
  if (name === "meta" && data.dreg !== undefined) return metaOf(packet, data.key)
  if (name === "ct" && data.dreg !== undefined) {
    if (data.key === Ct.state) return u32.encode(CT_STATE_NEW)
    if (data.key === Ct.direction) return Uint8Array.of(0)
    return data.key === Ct.status ? u32.encode(packet.isMapped ? CT_STATUS_DNAT : 0) : "unknown"
  }
  if (name === "fib")
    return data.result === 3 && ((data.flags ?? 0) & 2) !== 0 ? u32.encode(packet.isLocal ? 2 : 1) : "unknown"
  return undefined
}

function metaOf({ input, output, protocol, source }: Packet, key: number | undefined): Uint8Array | "unknown" {
  if (key === Meta.iifname) return ifnameValue(input)
  if (key === Meta.oifname) return ifnameValue(output)
  if (key === Meta.l4proto) return Uint8Array.of(protocol)
  if (key === Meta.nfproto) return Uint8Array.of(familyOf(source))
  return key === Meta.mark ? new Uint8Array(dataTypes.mark.size) : "unknown"
}

const BASE_NETWORK = 1
const BASE_TRANSPORT = 2

function payloadOf(
  packet: Packet,
  { base, offset = 0, length = 0 }: Record<string, number | undefined>,
): Uint8Array | "unknown" {
  const { source, destination, protocol, destinationPort } = packet
  const isIpv4 = familyOf(source) === AF_INET
  if (base === BASE_NETWORK) {
    const [from, to, next] = isIpv4 ? [12, 16, 9] : [8, 24, 6]
    const header = new Uint8Array(isIpv4 ? 20 : 40)
    header.set(source, from)
    header.set(destination, to)
    header[next] = protocol
    const isKnown = offset === next || (offset >= from && offset + length <= to + destination.length)
    return isKnown ? header.subarray(offset, offset + length) : "unknown"
  }
  if (base === BASE_TRANSPORT && offset === 2 && length === 2)
    return Uint8Array.of(destinationPort >> 8, destinationPort & 0xff)
  return "unknown"
}

function compare(loaded: Uint8Array, value: Uint8Array): number {
  for (let at = 0; at < value.length; at++) {
    const difference = (loaded[at] ?? 0) - (value[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** eq, neq, lt, lte, gt, gte */
function holds(op: number, difference: number): boolean {
  return (
    [difference === 0, difference !== 0, difference < 0, difference <= 0, difference > 0, difference >= 0][op] ?? true
  )
}
