import { type HtbClass, type Qdisc, type QdiscOptions, qdiscOptions } from "../../pkg/netlink/mod.ts"

/** The limit of one direction: a token bucket. */
export interface Limit {
  /** Bytes per second, at least 1. */
  rate: number
  /** Bytes that may be sent at once after a pause, at least 1. */
  burst: number
}

export const MAX_U32 = 0xffffffff
/** The clock of traffic control since Linux 2.6.31: one tick is 64 ns, `PSCHED_SHIFT` in <net/pkt_sched.h>. */
const TICKS_PER_US = 15.625
/** The longest time that a packet waits in the queue, in microseconds; the same as upstream's. */
const LATENCY_US = 25_000

/** The minimum of the default burst, in bytes: more than twenty Ethernet frames, or three jumbo frames. */
const MIN_DEFAULT_BURST = 32 * 1024
const DEFAULT_BURST_SECONDS = 0.02

/** Returns the default burst of a rate in bytes: 20 ms at the rate, and at least 32 KiB. */
export function defaultBurst(rate: number): number {
  return Math.min(Math.max(Math.trunc(rate * DEFAULT_BURST_SECONDS), MIN_DEFAULT_BURST), MAX_U32 - 1)
}

/** Returns the length of a limit's queue in bytes: 25 ms at the rate, plus the burst. */
export function queueLimit({ rate, burst }: Limit): number {
  return Math.min(Math.trunc((rate * LATENCY_US) / 1e6) + burst, MAX_U32)
}

/** The largest packet that a sender passes to its link in one piece. htb queues it whole, tbf splits it. */
const LARGEST_PACKET = 64 * 1024

/** Returns the length of an htb class's queue in bytes: `queueLimit` plus one unsplit packet, which must fit. */
export function classQueueLimit(limit: Limit): number {
  return Math.min(queueLimit(limit) + LARGEST_PACKET, MAX_U32)
}

/** Returns the time in ticks that a burst takes at the rate, rounded like upstream. The result may exceed 32 bits. */
function ticksOf({ rate, burst }: Limit): number {
  return Math.trunc(Math.trunc((burst * 1e6) / rate) * TICKS_PER_US)
}

function hasExactTicks(limit: Limit): boolean {
  const ticks = ticksOf(limit)
  return ticks >= 1 && ticks <= MAX_U32
}

/** Returns the value of a 32-bit rate field; all ones for a higher rate, which then needs the 64-bit attribute. */
const shortRate = (rate: number) => Math.min(rate, MAX_U32)
const longRate = (rate: number) => (rate > MAX_U32 ? BigInt(rate) : undefined)

/**
 * Returns the options of the tbf qdisc for a limit, byte for byte as upstream's. If the burst's ticks exceed 32 bits,
 * as for a large burst at a low rate, the options contain its bytes as well.
 */
export function tbfOptions(limit: Limit): QdiscOptions<"tbf"> {
  const { rate, burst } = limit
  const isExact = hasExactTicks(limit)
  const buffer = isExact ? ticksOf(limit) : MAX_U32
  const parameters = { rate: shortRate(rate), limit: queueLimit(limit), buffer }
  return { parameters, rate64: longRate(rate), burst: isExact ? undefined : burst }
}

/** Reports whether a qdisc is a limit's tbf. If the ticks are inexact, compares the burst by the queue's length. */
export function isTbfOf(found: Qdisc, limit: Limit): boolean {
  const options = qdiscOptions(found, "tbf")
  if (!options?.parameters) return false
  const { rate, limit: queue, buffer } = options.parameters
  if (Number(options.rate64 ?? rate) !== limit.rate || queue !== queueLimit(limit)) return false
  return !hasExactTicks(limit) || buffer === ticksOf(limit)
}

/**
 * Returns the options of an htb class for a limit. A burst that takes more than 274 s at the rate is reduced to 274 s.
 */
export function htbOptions(limit: Limit): HtbClass["options"] {
  const { rate } = limit
  const buffer = Math.min(Math.max(ticksOf(limit), 1), MAX_U32)
  const [short, long] = [shortRate(rate), longRate(rate)]
  // The quantum is never used, because no class borrows from another. Without a quantum the kernel logs a warning.
  const parameters = { rate: short, ceil: short, buffer, ceilBuffer: buffer, quantum: 64 * 1024 }
  return { rate64: long, ceil64: long, parameters }
}

export function isHtbClassOf({ options }: HtbClass, limit: Limit): boolean {
  const wanted = htbOptions(limit).parameters
  const { parameters, rate64, ceil64 } = options
  if (!parameters || !wanted) return false
  const rates = [Number(rate64 ?? parameters.rate), Number(ceil64 ?? parameters.ceil)]
  return rates.every((rate) => rate === limit.rate) && parameters.buffer === wanted.buffer
}

/** Formats a limit as `tc` does. */
export function describeLimit({ rate, burst }: Limit): string {
  return `rate ${rate * 8}bit burst ${burst}b`
}

/** Formats the limiting parameters of a qdisc as `tc` does. */
export function describeQdisc(qdisc: Qdisc | undefined): string {
  if (!qdisc) return "none"
  const name = `${qdisc.kind} ${(qdisc.handle >>> 16).toString(16)}:`
  const options = qdiscOptions(qdisc, "tbf")
  if (!options?.parameters) return name
  const { rate, buffer = 0, limit } = options.parameters
  const bytesPerSecond = Number(options.rate64 ?? rate)
  const burst = Math.round((buffer / TICKS_PER_US / 1e6) * bytesPerSecond)
  return `${name} rate ${bytesPerSecond * 8}bit burst ${burst}b limit ${limit}b`
}
