import { type HtbClass, type Qdisc, type QdiscOptions, qdiscOptions } from "../../pkg/netlink/mod.ts"

/** The limit of one direction. */
export interface Limit {
  /** Bytes a second, 1 or more. */
  rate: number
  /** Bytes that may go at once after a pause, 1 or more. */
  burst: number
}

/** The kernel's fields of 32 bits. */
export const MAX_U32 = 0xffffffff
/** The clock of traffic control since Linux 2.6.31: one tick is 64 ns, `PSCHED_SHIFT` in <net/pkt_sched.h>. */
const TICKS_PER_US = 15.625
/** The time that a packet may wait at the rate, upstream's value. */
const LATENCY_US = 25_000

/** The smallest burst that is chosen here: more than twenty frames of Ethernet, three jumbo frames. */
const MIN_DEFAULT_BURST = 32 * 1024
const DEFAULT_BURST_SECONDS = 0.02

/** The default burst of a limit: the bytes of 20 ms, and at least 32 KiB. */
export function defaultBurst(rate: number): number {
  return Math.min(Math.max(Math.trunc(rate * DEFAULT_BURST_SECONDS), MIN_DEFAULT_BURST), MAX_U32 - 1)
}

/** Bytes that may wait: those of 25 ms, and the burst. */
export function queueLimit({ rate, burst }: Limit): number {
  return Math.min(Math.trunc((rate * LATENCY_US) / 1e6) + burst, MAX_U32)
}

/** The largest packet that a sender gives to its link in one piece: tbf cuts it up, htb does not. */
const LARGEST_PACKET = 64 * 1024

/** Bytes that may wait in a class of htb: as many, and one packet that is not cut yet, which would never get in otherwise. */
export function classQueueLimit(limit: Limit): number {
  return Math.min(queueLimit(limit) + LARGEST_PACKET, MAX_U32)
}

/** The burst as the time that it takes at the rate, in ticks, rounded as upstream does it. May not fit into 32 bits. */
function ticksOf({ rate, burst }: Limit): number {
  return Math.trunc(Math.trunc((burst * 1e6) / rate) * TICKS_PER_US)
}

function hasExactTicks(limit: Limit): boolean {
  const ticks = ticksOf(limit)
  return ticks >= 1 && ticks <= MAX_U32
}

/** A rate beyond 32 bits is all ones in the 32-bit field; the 64-bit attribute has the real rate. */
const shortRate = (rate: number) => Math.min(rate, MAX_U32)
const longRate = (rate: number) => (rate > MAX_U32 ? BigInt(rate) : undefined)

/**
 * The tbf qdisc of a limit, with the same bytes as upstream's. A burst whose ticks do not fit into 32 bits, as for a
 * large burst at a low rate, is also given in bytes.
 */
export function tbfOptions(limit: Limit): QdiscOptions<"tbf"> {
  const { rate, burst } = limit
  const isExact = hasExactTicks(limit)
  const buffer = isExact ? ticksOf(limit) : MAX_U32
  const parameters = { rate: shortRate(rate), limit: queueLimit(limit), buffer }
  return { parameters, rate64: longRate(rate), burst: isExact ? undefined : burst }
}

/** Whether a qdisc is the tbf of a limit. A burst without exact ticks is compared by `limit`, which contains it. */
export function isTbfOf(found: Qdisc, limit: Limit): boolean {
  const options = qdiscOptions(found, "tbf")
  if (!options?.parameters) return false
  const { rate, limit: queue, buffer } = options.parameters
  if (Number(options.rate64 ?? rate) !== limit.rate || queue !== queueLimit(limit)) return false
  return !hasExactTicks(limit) || buffer === ticksOf(limit)
}

/** A class of htb that sends at a rate and no faster. A burst of more than 274 s at the rate is cut to that. */
export function htbOptions(limit: Limit): HtbClass["options"] {
  const { rate } = limit
  const buffer = Math.min(Math.max(ticksOf(limit), 1), MAX_U32)
  const [short, long] = [shortRate(rate), longRate(rate)]
  // No class borrows from another, so the quantum is never used; without one the kernel's log complains about the rate.
  const parameters = { rate: short, ceil: short, buffer, ceilBuffer: buffer, quantum: 64 * 1024 }
  return { rate64: long, ceil64: long, parameters }
}

/** Whether a class of htb is that of a limit. */
export function isHtbClassOf({ options }: HtbClass, limit: Limit): boolean {
  const wanted = htbOptions(limit).parameters
  const { parameters, rate64, ceil64 } = options
  if (!parameters || !wanted) return false
  const rates = [Number(rate64 ?? parameters.rate), Number(ceil64 ?? parameters.ceil)]
  return rates.every((rate) => rate === limit.rate) && parameters.buffer === wanted.buffer
}

/** A limit as `tc` writes it. */
export function describeLimit({ rate, burst }: Limit): string {
  return `rate ${rate * 8}bit burst ${burst}b`
}

/** A qdisc as `tc` writes it, as far as it concerns limits. */
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
