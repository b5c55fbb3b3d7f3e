import type { ClientConfig, Lease, Moment } from "./types.ts"

/** RFC 2131, 3.3: a lease that never ends. RFC 8415, 7.7, has the same number. */
const infinity = 0xffffffff

/** What a lease lasts at least. For less a client would do nothing but renew it, and with each renewal wait for the disk. */
const leastMs = 4_000

/** RFC 2131, 4.1: the time before a packet is sent again is longer or shorter by up to a second; here also by no more than a quarter. */
export function jitter(ms: number, moment: Moment): number {
  return Math.max(1, Math.round(ms + (2 * moment.random() - 1) * Math.min(1000, ms / 4)))
}

/**
 * When a lease is to be renewed, rebound, and ends. T1 is half of the lease time and T2 seven eighths where the server does not say, or what
 * it says is out of order (RFC 2131, 4.4.5), or sooner than half of the shortest lease. Both come a little sooner, by chance: clients that began together do not renew together.
 */
export function leaseTimes(
  seconds: { valid: number; renew?: number | undefined; rebind?: number | undefined },
  moment: Moment,
): Pick<Lease, "renewAt" | "rebindAt" | "expiresAt"> {
  const { now } = moment
  if (seconds.valid === infinity) return {}
  const valid = Math.max(leastMs, seconds.valid * 1000)
  let [renew, rebind] = [(seconds.renew ?? 0) * 1000 || valid / 2, (seconds.rebind ?? 0) * 1000 || valid * 0.875]
  if (renew < leastMs / 2 || renew > rebind || rebind > valid) [renew, rebind] = [valid / 2, valid * 0.875]
  const sooner = 1 - moment.random() / 32
  return {
    renewAt: Math.round(now + renew * sooner),
    rebindAt: Math.round(now + rebind * sooner),
    expiresAt: now + valid,
  }
}

/** How long to wait after so many attempts that failed: four times two seconds, then 8, 16, 32 … up to the longest. */
export function pauseMs(failures: number, config: ClientConfig, moment: Moment): number {
  const ms = failures <= 4 ? 2000 : 8000 * 2 ** Math.min(20, failures - 5)
  return jitter(Math.min(ms, Math.max(config.resendMaxMs, 1)), moment)
}

/**
 * How long to wait for an answer to a request to renew: half of the time that is left until `end`, a minute at least (RFC 2131, 4.4.5), or a
 * quarter of the whole time where that is less. Never beyond the end.
 */
export function renewalWait(begin: number, end: number, now: number): number {
  const least = Math.min(60_000, (end - begin) / 4)
  return Math.max(1, Math.round(Math.min(end - now, Math.max(least, (end - now) / 2))))
}

/**
 * How long to wait for an answer of DHCPv6, after the wait before; 0 for the first time (RFC 8415, 15). The first is a little longer
 * than said, never shorter.
 */
export function retransmission(
  beforeMs: number,
  { firstMs, longestMs }: { firstMs: number; longestMs: number },
  moment: Moment,
): number {
  if (beforeMs === 0) return Math.round(firstMs * (1 + moment.random() / 10))
  const factor = (2 * moment.random() - 1) / 10
  const next = beforeMs * (2 + factor)
  return Math.round(next > longestMs ? longestMs * (1 + factor) : next)
}

/** Whether there is a lease, and it has not ended. */
export function holds(lease: Lease | undefined, { now }: Moment): boolean {
  return lease !== undefined && (lease.expiresAt === undefined || now < lease.expiresAt)
}
