import { readAnswer } from "./answer4.ts"
import { encodeProbe, findUser } from "./arp.ts"
import { addressOf, addressText } from "./lease4.ts"
import { frames4 } from "./packets4.ts"
import { advanceBy, andThen, changed, forget, lose, randomXid, settle, stepTo } from "./step.ts"
import { holds, jitter, pauseMs, renewalWait } from "./timing.ts"
import type { ClientEvent, ClientState, Lease, Moment, Phase, Step } from "./types.ts"

/** How often a packet is sent before an attempt has failed. */
const tries = 4
const rebootTries = 2
/** RFC 5227, 1.1: probes before an address is taken to be free. */
const probes = 3

/** A step of a client of DHCPv4 (RFC 2131, 4.4). */
export function advance4(state: ClientState, event: ClientEvent, moment: Moment): Step {
  return advanceBy({ begin, onTime, onFrame, release }, state, event, moment)
}

/** Begins a transaction of its own, and sends its first packet. */
function begin(state: ClientState, phase: Phase, moment: Moment): Step {
  const transaction = { xid: randomXid(32, moment), begunAt: moment.now, sent: 0, waitMs: state.config.timeoutMs }
  return send(changed(state, { phase, ...transaction, offer: undefined }), moment)
}

/** Sends the packet that belongs to the phase, again or for the first time, and says when it is due the next time. */
function send(state: ClientState, moment: Moment): Step {
  const { now } = moment
  const { phase, sent, waitMs, lease, offer } = state
  const again = changed(state, { sent: sent + 1, waitMs: waitMs * 2, deadline: now + jitter(waitMs, moment) })
  if (phase === "selecting") {
    const secs = secondsSince(state.begunAt, now)
    return stepTo(changed(again, { secs }), [frames4.discover(changed(state, { secs }))])
  }
  if (phase === "requesting" && offer) return stepTo(again, [frames4.request(state, offer)])
  if (!lease) return begin(state, "selecting", moment)
  const aged = changed(state, { secs: secondsSince(state.begunAt, now) })
  if (phase === "rebooting") {
    const deadline = Math.min(again.deadline ?? now, lease.expiresAt ?? Number.POSITIVE_INFINITY)
    return stepTo(changed(again, { deadline }), [frames4.reboot(aged, lease)])
  }
  const isRenewing = phase === "renewing"
  const end = (isRenewing ? lease.rebindAt : lease.expiresAt) ?? now
  const deadline = now + renewalWait(state.begunAt, end, now)
  const frame = isRenewing ? frames4.renew(aged, lease) : frames4.rebind(aged, lease)
  return stepTo(changed(state, { sent: sent + 1, deadline }), [frame])
}

function secondsSince(then: number, now: number): number {
  return Math.min(0xffff, Math.max(0, Math.floor((now - then) / 1000)))
}

function onTime(state: ClientState, moment: Moment): Step {
  const { phase, sent, lease, offer } = state
  if (lease && !holds(lease, moment)) return lose(begin, state, moment)
  switch (phase) {
    case "selecting":
    case "requesting":
      return sent < tries ? send(state, moment) : pause(state, moment)
    case "rebooting": // no answer: the lease is good until it ends (RFC 2131, 3.2)
      return sent < rebootTries || !lease ? send(state, moment) : settle(begin, state, lease, moment)
    case "probing":
      return offer ? probe(state, offer, moment) : begin(state, "selecting", moment)
    case "renewing":
      if (lease?.rebindAt !== undefined && moment.now >= lease.rebindAt) return begin(state, "rebinding", moment)
      return send(state, moment)
    case "rebinding":
      return send(state, moment)
    case "bound":
      return begin(state, "renewing", moment)
    default:
      return begin(state, "selecting", moment)
  }
}

/** Waits before the next attempt. */
function pause(state: ClientState, moment: Moment, ms?: number): Step {
  const failures = state.failures + 1
  const deadline = moment.now + (ms ?? pauseMs(failures, state.config, moment))
  return stepTo(changed(state, { phase: "waiting", failures, deadline, offer: undefined }))
}

function onFrame(state: ClientState, frame: Uint8Array, moment: Moment): Step {
  const { phase, offer, config, lease } = state
  if (phase === "probing" && offer) {
    const user = findUser(frame, config.mac, addressOf(offer))
    if (user !== undefined) return decline(state, offer, user, moment)
  }
  if (!["selecting", "requesting", "renewing", "rebinding", "rebooting"].includes(phase)) return stepTo(state)
  const answer = readAnswer(state, frame, moment)
  if (!answer) return stepTo(state)
  const seen = changed(state, { seen: answer.seen })
  if (answer.kind === "offer") {
    const taken = changed(seen, { phase: "requesting", offer: answer.lease, sent: 0, waitMs: config.timeoutMs })
    return send(taken, moment)
  }
  if (answer.kind === "nak") {
    return lease || offer ? andThen(stepTo(seen), (refused) => refuse(refused, answer.seen, moment)) : stepTo(seen)
  }
  if (answer.kind !== "ack") return stepTo(seen)
  if (phase !== "requesting") {
    const before = lease ?? answer.lease
    return andThen(stepTo(seen, [], [{ kind: "renewed", lease: answer.lease, before }]), (renewed) =>
      settle(begin, renewed, answer.lease, moment),
    )
  }
  if (config.probeMs <= 0) return bind(seen, answer.lease, moment)
  return probe(changed(seen, { phase: "probing", offer: answer.lease, sent: 0 }), answer.lease, moment)
}

/** A server says no: to a lease, which is lost, or to taking what it has offered. */
function refuse(state: ClientState, why: string, moment: Moment): Step {
  return state.lease ? lose(begin, state, moment, why) : pause(state, moment)
}

function bind(state: ClientState, lease: Lease, moment: Moment): Step {
  return andThen(stepTo(state, [], [{ kind: "bound", lease }]), (bound) => settle(begin, bound, lease, moment))
}

/** Asks once more whether the address is in use; it is not when none of the probes was answered. */
function probe(state: ClientState, offer: Lease, moment: Moment): Step {
  if (state.sent >= probes) return bind(state, offer, moment)
  const deadline = moment.now + Math.ceil(state.config.probeMs / probes)
  return stepTo(changed(state, { sent: state.sent + 1, deadline }), [encodeProbe(state.config.mac, addressOf(offer))])
}

/** Tells the server that the address is in use, and waits before the next attempt (RFC 2131, 3.1, 5: ten seconds). */
function decline(state: ClientState, offer: Lease, user: string, moment: Moment): Step {
  const seen = `${addressText(offer)} in use by ${user}`
  const declined = stepTo(changed(state, { seen }), [frames4.decline(state, offer)])
  return andThen(declined, (free) => pause(free, moment, Math.min(10_000, state.config.timeoutMs)))
}

/** Gives back what the server has given, or may have given by an ACK that was lost. */
function release(state: ClientState, moment: Moment): Step {
  const { lease = state.phase === "selecting" ? undefined : state.offer } = state
  const ended = changed(forget(state), { phase: "ended", deadline: undefined, xid: randomXid(32, moment) })
  return stepTo(ended, lease && holds(lease, moment) ? [frames4.release(ended, lease)] : [])
}
