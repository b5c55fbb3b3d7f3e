/**
 * The DHCP client. From a state and an event it computes the next state, the frames to send, and the changes of the
 * interface. It opens nothing, sends nothing and waits for nothing: frames, time and the deadline of the state are its
 * inputs and outputs. The states are those of RFC 2131, figure 5, and RFC 8415, 18.2. Only this client has "waiting",
 * "probing", "routing" and "ended".
 *
 * | state      | DHCPv4 sends              | DHCPv6 sends         | next state                                                         |
 * | ---------- | ------------------------- | -------------------- | ------------------------------------------------------------------ |
 * | init       | nothing                   | nothing              | start: selecting, or with a lease rebooting                        |
 * | selecting  | DISCOVER                  | SOLICIT              | OFFER, ADVERTISE: requesting; no answer: waiting                   |
 * | requesting | REQUEST to all            | REQUEST              | ACK, REPLY: probing, routing or bound; NAK, no answer: waiting     |
 * | probing    | ARP probes                |                      | silence: bound; a conflict: DECLINE, waiting                       |
 * | routing    |                           | router solicitations | a router advertisement, or silence: bound                          |
 * | bound      | nothing                   | nothing              | T1: renewing                                                       |
 * | renewing   | REQUEST to the server     | RENEW                | ACK, REPLY: bound; T2: rebinding; NAK: selecting; NoBinding: requesting |
 * | rebinding  | REQUEST to all            | REBIND               | ACK, REPLY: bound; NAK, the end of the lease: selecting            |
 * | rebooting  | REQUEST (INIT-REBOOT)     | CONFIRM              | ACK, REPLY, silence: bound; NAK, NotOnLink: selecting              |
 * | waiting    | nothing                   | nothing              | the end of the pause: selecting                                    |
 * | ended      | RELEASE                   | RELEASE              |                                                                    |
 */
import { AF_INET } from "../../../pkg/types/mod.ts"
import { encodeProbe, findUser } from "./frames.ts"
import { addressOf, addressText } from "./lease4.ts"
import { withRouter } from "./lease6.ts"
import { declineFrame, readAnswer4, releaseFrame, requestFrame } from "./message4.ts"
import { readAnswer6, releaseFrame6, requestFrame6, routerSolicitation } from "./message6.ts"
import { preferredRouter, readAdvertisement } from "./router.ts"
import { holds, nextWait, pauseMs, secondsSince } from "./timing.ts"
import type { Answer, Change, ClientConfig, ClientEvent, ClientState, Lease, Moment, Phase, Step } from "./types.ts"

/**
 * The number of transmissions after which a request counts as unanswered (RFC 2131, 4.1; RFC 8415, 7.6). Requests in
 * other states are repeated until T2 or the end of the lease.
 */
const tries4: Partial<Record<Phase, number>> = { selecting: 4, requesting: 4, rebooting: 2 }
const tries6: Partial<Record<Phase, number>> = { selecting: 5, requesting: 5, rebooting: 4 }
const PROBES = 3 // RFC 5227, 1.1
const DECLINE_PAUSE_MS = 10_000 // RFC 2131, 3.1, 5
const ROUTER_TRIES = 4 // RFC 4861, 10: the number of router solicitations, and the wait after each
const ROUTER_WAIT_MS = 1000
const ROUTER_FRESH_MS = 10_000 // an older advertisement does not answer a solicitation

/** States that ignore frames. */
const deaf: readonly Phase[] = ["init", "bound", "waiting", "ended"]

/** Returns a client in state "init", which the event "start" ends. */
export function createClient(config: ClientConfig): ClientState {
  return { config, phase: "init", xid: 0, begunAt: 0, sent: 0, waitMs: 0, failures: 0 }
}

/**
 * Returns the step of a client for an event. Equal arguments give equal steps. No content of a frame makes it throw.
 * The next "time" event is due at `state.deadline`.
 */
export function advance(state: ClientState, event: ClientEvent, moment: Moment): Step {
  if (state.phase === "ended") return stepTo(state)
  switch (event.kind) {
    case "start":
      return holds(state.lease, moment) ? begin(state, "rebooting", moment) : lose(state, moment)
    case "time":
      return state.deadline !== undefined && moment.now >= state.deadline ? onTime(state, moment) : stepTo(state)
    case "frame":
      return deaf.includes(state.phase) ? stepTo(state) : onFrame(state, event.frame, moment)
    case "release":
      return release(state, moment)
  }
}

function onTime(state: ClientState, moment: Moment): Step {
  const { phase, sent, lease, offer } = state
  if (phase !== "routing" && lease && !holds(lease, moment)) return lose(state, moment)
  const isUnanswered = sent >= ((isIpv4(state) ? tries4 : tries6)[phase] ?? Number.POSITIVE_INFINITY)
  switch (phase) {
    case "selecting":
    case "requesting":
      if (!isUnanswered) return send(state, moment)
      return lease ? begin(state, "rebinding", moment) : pause(state, moment)
    case "rebooting": // without an answer the lease stays valid until it ends; RFC 2131, 3.2; RFC 8415, 18.2.3
      return isUnanswered && lease ? settle(state, lease, moment) : send(state, moment)
    case "probing":
      return offer ? probe(state, offer, moment) : begin(state, "selecting", moment)
    case "routing":
      return offer ? awaitRouter(state, offer, moment) : begin(state, "selecting", moment)
    case "bound":
      return begin(state, "renewing", moment)
    case "renewing":
    case "rebinding":
      return phase === "renewing" && moment.now >= (lease?.rebindAt ?? Number.POSITIVE_INFINITY)
        ? begin(state, "rebinding", moment)
        : send(state, moment)
    default:
      return begin(state, "selecting", moment)
  }
}

function onFrame(state: ClientState, frame: Uint8Array, moment: Moment): Step {
  const { phase, offer } = state
  if (phase === "probing") {
    const user = offer && findUser(frame, state.config.mac, addressOf(offer))
    return offer && user !== undefined ? decline(state, offer, user, moment) : stepTo(state)
  }
  const router = isIpv4(state) ? undefined : readAdvertisement(frame, moment.now)
  if (router) {
    const heard = changed(state, { router: preferredRouter(state.router, router) })
    return phase === "routing" && offer ? bind(heard, offer, moment) : stepTo(heard)
  }
  if (phase === "routing") return stepTo(state)
  const answer = (isIpv4(state) ? readAnswer4 : readAnswer6)(state, frame, moment)
  return answer ? onAnswer(changed(state, { seen: answer.seen }), answer, moment) : stepTo(state)
}

function onAnswer(state: ClientState, answer: Answer, moment: Moment): Step {
  const { phase, lease, config } = state
  switch (answer.kind) {
    case "offer":
      // The REQUEST of DHCPv4 continues the transaction of its DISCOVER; RFC 2131, 4.4.1.
      return isIpv4(state)
        ? send(changed(state, { phase: "requesting", offer: answer.lease, sent: 0, waitMs: config.timeoutMs }), moment)
        : begin(changed(state, { offer: answer.lease }), "requesting", moment)
    case "ack":
      if (!isIpv4(state)) return awaitRouter(changed(state, { sent: 0 }), answer.lease, moment)
      if (phase !== "requesting" || config.probeMs <= 0) return bind(state, answer.lease, moment)
      return probe(changed(state, { phase: "probing", offer: answer.lease, sent: 0 }), answer.lease, moment)
    case "confirmed":
      return lease ? settle(state, lease, moment) : stepTo(state)
    case "nak":
      if (lease) return lose(state, moment, answer.seen)
      break
    case "no binding":
      if (lease && (phase === "renewing" || phase === "rebinding"))
        return begin(changed(state, { offer: lease }), "requesting", moment)
      break
    case "ignored":
      return stepTo(state)
  }
  return phase === "requesting" && !lease ? pause(state, moment) : stepTo(state)
}

/** Enters a state, starts a new transaction for it, and sends its first request. */
function begin(state: ClientState, phase: Phase, moment: Moment): Step {
  const transaction = { xid: randomXid(state, moment), begunAt: moment.now, sent: 0 }
  const waitMs = isIpv4(state) ? state.config.timeoutMs : 0
  const offer = phase === "requesting" ? state.offer : undefined
  return send(changed(state, { phase, ...transaction, waitMs, offer }), moment)
}

/** Sends or repeats the request of the state, and sets the deadline for the answer. */
function send(state: ClientState, moment: Moment): Step {
  const { now } = moment
  const { phase, lease, offer } = state
  if (phase !== "selecting" && !(phase === "requesting" ? offer : lease)) return begin(state, "selecting", moment)
  const sent = { sent: state.sent + 1, ...nextWait(state, moment) }
  if (!isIpv4(state)) {
    const solicitation = hasFreshRouter(state, moment) ? [] : [routerSolicitation(state)]
    return stepTo(changed(state, sent), [...solicitation, requestFrame6(state, now)])
  }
  // A REQUEST has the same `secs` as the DISCOVER before it; RFC 2131, 4.4.1.
  const secs = phase === "requesting" ? state.secs : secondsSince(state.begunAt, now)
  return stepTo(changed(state, { ...sent, secs }), [requestFrame(changed(state, { secs }))])
}

/** Waits before the next attempt, in state "waiting". */
function pause(state: ClientState, moment: Moment, ms?: number): Step {
  const failures = state.failures + 1
  const deadline = moment.now + (ms ?? pauseMs(failures, state.config, moment))
  return stepTo(changed(state, { phase: "waiting", failures, deadline, offer: undefined }))
}

/** Sends an ARP probe for the address. After the last one the address counts as free, and the lease is bound. */
function probe(state: ClientState, offer: Lease, moment: Moment): Step {
  if (state.sent >= PROBES) return bind(state, offer, moment)
  const deadline = moment.now + Math.ceil(state.config.probeMs / PROBES)
  return stepTo(changed(state, { sent: state.sent + 1, deadline }), [encodeProbe(state.config.mac, addressOf(offer))])
}

function decline(state: ClientState, offer: Lease, user: string, moment: Moment): Step {
  const seen = `${addressText(offer)} in use by ${user}`
  const declined = stepTo(changed(state, { seen }), [declineFrame(state, offer)])
  return andThen(declined, (free) => pause(free, moment, Math.min(DECLINE_PAUSE_MS, state.config.timeoutMs)))
}

/**
 * Sends a router solicitation before the lease is bound, unless a router advertisement has arrived recently. If no
 * router answers several of them, the lease is bound without a router.
 */
function awaitRouter(state: ClientState, lease: Lease, moment: Moment): Step {
  if (hasFreshRouter(state, moment) || state.sent >= ROUTER_TRIES) return bind(state, lease, moment)
  const deadline = moment.now + Math.min(ROUTER_WAIT_MS, state.config.timeoutMs)
  const waiting = changed(state, { phase: "routing", offer: lease, sent: state.sent + 1, deadline })
  return stepTo(waiting, [routerSolicitation(state)])
}

function hasFreshRouter({ router }: ClientState, { now }: Moment): boolean {
  return router !== undefined && now < router.at + ROUTER_FRESH_MS
}

function bind(state: ClientState, given: Lease, moment: Moment): Step {
  const { lease: before } = state
  const lease = withRouter(given, state.router, moment.now)
  const change: Change = before ? { kind: "renewed", lease, before } : { kind: "bound", lease }
  return andThen(stepTo(state, [], [change]), (bound) => settle(bound, lease, moment))
}

/** Enters "bound" until T1. */
function settle(state: ClientState, lease: Lease, moment: Moment): Step {
  const bound = changed(state, { phase: "bound", lease, offer: undefined, failures: 0, deadline: lease.renewAt })
  if (lease.renewAt !== undefined && moment.now >= lease.renewAt) return begin(bound, "renewing", moment)
  return stepTo(bound)
}

/** Removes the lease, if there is one, and starts again in "selecting". */
function lose(state: ClientState, moment: Moment, why?: string): Step {
  const { lease } = state
  const reason = why ?? `the lease of ${lease && addressText(lease)} has expired`
  const changes: Change[] = lease ? [{ kind: "lost", lease, why: reason }] : []
  const lost = stepTo(changed(state, { lease: undefined, offer: undefined }), [], changes)
  return andThen(lost, (free) => begin(free, "selecting", moment))
}

/** Releases the lease that a server assigned, or may have assigned in an answer that was lost. */
function release(state: ClientState, moment: Moment): Step {
  const { lease = state.phase === "selecting" ? undefined : state.offer } = state
  const transaction = { xid: randomXid(state, moment), begunAt: moment.now, deadline: undefined }
  const ended = changed(state, { phase: "ended", lease: undefined, offer: undefined, ...transaction })
  if (!lease || !holds(lease, moment)) return stepTo(ended)
  return stepTo(ended, [isIpv4(state) ? releaseFrame(ended, lease) : releaseFrame6(ended, lease, moment.now)])
}

function isIpv4({ config }: ClientState): boolean {
  return config.family === AF_INET
}

function randomXid(state: ClientState, moment: Moment): number {
  return Math.floor(moment.random() * 2 ** (isIpv4(state) ? 32 : 24))
}

/** Returns the state with changes. `undefined` removes a property, because a state in the journal has no such value. */
function changed(state: ClientState, changes: { [K in keyof ClientState]?: ClientState[K] | undefined }): ClientState {
  const next: Record<string, unknown> = { ...state, ...changes }
  for (const key of Object.keys(changes)) if (next[key] === undefined) delete next[key]
  return next as unknown as ClientState
}

function stepTo(state: ClientState, send: readonly Uint8Array[] = [], changes: readonly Change[] = []): Step {
  return { state, send, changes, listen: !deaf.includes(state.phase) }
}

/** Returns two steps as one. `next` gets the state after the first step. */
function andThen(first: Step, next: (state: ClientState) => Step): Step {
  const { state, send, changes, listen } = next(first.state)
  return { state, send: [...first.send, ...send], changes: [...first.changes, ...changes], listen }
}
