import { AF_INET } from "../../../pkg/types/mod.ts"
import type { ClientConfig, ClientState, Lease, Moment, Phase } from "./types.ts"

/** The lease time of a lease that never ends (RFC 2131, 3.3; RFC 8415, 7.7). */
const infinity = 0xffffffff

/** The shortest lease. A client would renew a shorter one, and wait for the disk, all the time. */
const leastMs = 4_000

/** Returns `ms` changed by a random time: at most a second (RFC 2131, 4.1), and at most a quarter of `ms`. */
function jitter(ms: number, moment: Moment): number {
  return Math.max(1, Math.round(ms + (2 * moment.random() - 1) * Math.min(1000, ms / 4)))
}

/**
 * Returns T1, T2 and the end of a lease. T1 is half of the lease time and T2 seven eighths if the server omits them,
 * sends them out of order (RFC 2131, 4.4.5), or sends a T1 below half of the shortest lease. Both are shortened by a
 * random time, so that clients that start together do not renew together.
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

/** Returns the pause after failed attempts: two seconds after each of the first four, then 8, 16 … up to a limit. */
export function pauseMs(failures: number, config: ClientConfig, moment: Moment): number {
  const ms = failures <= 4 ? 2000 : 8000 * 2 ** Math.min(20, failures - 5)
  return jitter(Math.min(ms, Math.max(config.resendMaxMs, 1)), moment)
}

/** The first and the longest wait for an answer of a DHCPv6 server (RFC 8415, 7.6). */
const waits6: Partial<Record<Phase, { firstMs: number; longestMs: number }>> = {
  selecting: { firstMs: 1000, longestMs: 30_000 },
  requesting: { firstMs: 1000, longestMs: 30_000 },
  rebooting: { firstMs: 1000, longestMs: 4000 },
  renewing: { firstMs: 10_000, longestMs: 600_000 },
  rebinding: { firstMs: 10_000, longestMs: 600_000 },
}

/**
 * Returns the deadline for the answer to a request that is sent now, and the wait before the next retransmission. The
 * deadline is T2 or the end of the lease at the latest.
 */
export function nextWait(state: ClientState, moment: Moment): Pick<ClientState, "waitMs"> & { deadline: number } {
  const { phase, waitMs, lease, begunAt, config } = state
  const { now } = moment
  const end = phase === "renewing" ? lease?.rebindAt : lease?.expiresAt
  const latest = end === undefined || end <= now ? Number.POSITIVE_INFINITY : end
  if (config.family !== AF_INET) {
    const wait = retransmission(waitMs, waits6[phase] ?? { firstMs: 1000, longestMs: 1000 }, moment)
    return { waitMs: wait, deadline: Math.min(now + wait, latest) }
  }
  if (phase === "renewing" || phase === "rebinding")
    return { waitMs, deadline: now + renewalWait(begunAt, end ?? now, now) }
  return { waitMs: waitMs * 2, deadline: Math.min(now + jitter(waitMs, moment), latest) }
}

/**
 * Returns half of the time until `end`, but at least a minute (RFC 2131, 4.4.5), or a quarter of the whole time if that
 * is shorter. Never exceeds `end`.
 */
function renewalWait(begin: number, end: number, now: number): number {
  const least = Math.min(60_000, (end - begin) / 4)
  return Math.max(1, Math.round(Math.min(end - now, Math.max(least, (end - now) / 2))))
}

/**
 * Returns the wait that follows a wait of `beforeMs`, which is 0 for the first wait (RFC 8415, 15). The first wait is a
 * little longer than `firstMs`, never shorter.
 */
function retransmission(
  beforeMs: number,
  { firstMs, longestMs }: { firstMs: number; longestMs: number },
  moment: Moment,
): number {
  if (beforeMs === 0) return Math.round(firstMs * (1 + moment.random() / 10))
  const factor = (2 * moment.random() - 1) / 10
  const next = beforeMs * (2 + factor)
  return Math.round(next > longestMs ? longestMs * (1 + factor) : next)
}

/** Returns the age of a transaction in seconds: the field `secs` of DHCPv4. */
export function secondsSince(then: number, now: number): number {
  return Math.min(0xffff, Math.max(0, Math.floor((now - then) / 1000)))
}

export function holds(lease: Lease | undefined, { now }: Moment): boolean {
  return lease !== undefined && (lease.expiresAt === undefined || now < lease.expiresAt)
}
