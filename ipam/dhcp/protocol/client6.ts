import { readAnswer6 } from "./answer6.ts"
import { withRouter } from "./lease6.ts"
import { encodeMessage6, encodeRouterSolicitation, MessageType6, Status6 } from "./message6.ts"
import { advertisementOf, readAdvertisement } from "./router.ts"
import { advanceBy, andThen, changed, forget, lose, randomXid, settle, stepTo } from "./step.ts"
import { holds, pauseMs, retransmission } from "./timing.ts"
import type { ClientEvent, ClientState, Lease, Moment, Phase, RouterSeen, Step } from "./types.ts"

/** How each phase asks: type of message, first and longest wait, and how often until it has failed (RFC 8415, 7.6). */
const requests: Partial<Record<Phase, { type: number; firstMs: number; longestMs: number; tries: number }>> = {
  selecting: { type: MessageType6.Solicit, firstMs: 1000, longestMs: 30_000, tries: 5 },
  requesting: { type: MessageType6.Request, firstMs: 1000, longestMs: 30_000, tries: 5 },
  rebooting: { type: MessageType6.Confirm, firstMs: 1000, longestMs: 4000, tries: 4 },
  renewing: { type: MessageType6.Renew, firstMs: 10_000, longestMs: 600_000, tries: Number.POSITIVE_INFINITY },
  rebinding: { type: MessageType6.Rebind, firstMs: 10_000, longestMs: 600_000, tries: Number.POSITIVE_INFINITY },
}

/** How often, and how long each time, a router is asked for when the address is there already (RFC 4861, 10). */
const routerTries = 4
const routerWaitMs = 1000
const freshMs = 10_000

/** A step of a client of DHCPv6 (RFC 8415, 18.2). */
export function advance6(state: ClientState, event: ClientEvent, moment: Moment): Step {
  return advanceBy({ begin, onTime, onFrame, release }, state, event, moment)
}

function begin(state: ClientState, phase: Phase, moment: Moment): Step {
  const transaction = { xid: randomXid(24, moment), begunAt: moment.now, sent: 0, waitMs: 0 }
  return send(changed(state, { phase, ...transaction, ...(phase !== "requesting" && { offer: undefined }) }), moment)
}

/** Sends what belongs to the phase, and asks for routers unless one has answered lately. */
function send(state: ClientState, moment: Moment): Step {
  const { now } = moment
  const { phase, sent, lease, offer } = state
  const request = requests[phase]
  if (!request) return begin(state, "selecting", moment)
  const address = phase === "requesting" ? offer : phase === "selecting" ? undefined : lease
  const server = phase === "requesting" || phase === "renewing" ? address?.serverDuid : undefined
  const waitMs = retransmission(state.waitMs, request, moment)
  const end = phase === "renewing" ? lease?.rebindAt : lease?.expiresAt
  const deadline = Math.min(now + waitMs, end === undefined || end <= now ? Number.POSITIVE_INFINITY : end)
  const frame = encodeMessage6(state, request.type, now, { address, server, asks: phase !== "rebooting" })
  const solicitation = hasRouter(state, moment) ? [] : [encodeRouterSolicitation(state)]
  return stepTo(changed(state, { sent: sent + 1, waitMs, deadline }), [...solicitation, frame])
}

/** Whether a router has been heard lately: what it says now is what it said then. */
function hasRouter({ router }: ClientState, { now }: Moment): boolean {
  return router !== undefined && now < router.at + freshMs
}

function onTime(state: ClientState, moment: Moment): Step {
  const { phase, sent, lease, offer } = state
  if (phase !== "routing" && lease && !holds(lease, moment)) return lose(begin, state, moment)
  const hasFailed = sent >= (requests[phase]?.tries ?? 0)
  switch (phase) {
    case "requesting":
      if (hasFailed && lease) return begin(state, "rebinding", moment)
      return hasFailed ? pause(state, moment) : send(state, moment)
    case "selecting":
      return hasFailed ? pause(state, moment) : send(state, moment)
    case "rebooting": // no answer: the lease is good until it ends (RFC 8415, 18.2.3)
      return hasFailed && lease ? settle(begin, state, lease, moment) : send(state, moment)
    case "routing":
      return offer ? awaitRouter(state, offer, moment) : begin(state, "selecting", moment)
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

function pause(state: ClientState, moment: Moment): Step {
  const failures = state.failures + 1
  const deadline = moment.now + pauseMs(failures, state.config, moment)
  return stepTo(changed(state, { phase: "waiting", failures, deadline, offer: undefined }))
}

function onFrame(state: ClientState, frame: Uint8Array, moment: Moment): Step {
  const { phase, offer, lease } = state
  if (requests[phase] === undefined && phase !== "routing") return stepTo(state)
  const router = readAdvertisement(frame, moment.now)
  if (router) {
    const heard = changed(state, { router: preferred(state, router) })
    return phase === "routing" && offer ? bind(heard, offer, moment) : stepTo(heard)
  }
  const answer = phase === "routing" ? undefined : readAnswer6(state, frame, moment)
  if (!answer) return stepTo(state)
  const seen = changed(state, { seen: answer.seen })
  if (answer.kind === "refused") return refuse(seen, answer.status, answer.seen, moment)
  if (answer.kind === "confirmed") return lease ? settle(begin, seen, lease, moment) : stepTo(seen)
  if (phase !== "selecting") return awaitRouter(changed(seen, { sent: 0 }), answer.lease, moment)
  return begin(changed(seen, { phase: "requesting", offer: answer.lease }), "requesting", moment)
}

/** Of two routers the one that is preferred, and of equals the one that was there; what a router says last holds for it. */
function preferred({ router }: ClientState, heard: RouterSeen): RouterSeen {
  const [known, said] = [router && advertisementOf(router), advertisementOf(heard)]
  if (!router || !known || !said || router.address === heard.address) return heard
  if (heard.at >= router.at + known.lifetimeSeconds * 1000) return heard
  return said.lifetimeSeconds > 0 && said.preference > known.preference ? heard : router
}

/** A server does not give what was asked for. Where any may answer, another one may give it. */
function refuse(state: ClientState, status: number | undefined, why: string, moment: Moment): Step {
  const { phase, lease } = state
  if (lease && status === Status6.NoBinding && (phase === "renewing" || phase === "rebinding")) {
    return begin(changed(state, { offer: lease }), "requesting", moment)
  }
  if (lease && (status === Status6.NotOnLink || status === Status6.NoAddrsAvail)) return lose(begin, state, moment, why)
  return phase === "requesting" && !lease ? pause(state, moment) : stepTo(state)
}

/** With the address there: waits a little for a router, which is asked for again, and goes on without one in the end. */
function awaitRouter(state: ClientState, lease: Lease, moment: Moment): Step {
  if (hasRouter(state, moment) || state.sent >= routerTries) return bind(state, lease, moment)
  const deadline = moment.now + Math.min(routerWaitMs, state.config.timeoutMs)
  const waiting = changed(state, { phase: "routing", offer: lease, sent: state.sent + 1, deadline })
  return stepTo(waiting, [encodeRouterSolicitation(state)])
}

function bind(state: ClientState, given: Lease, moment: Moment): Step {
  const { lease: before } = state
  const lease = withRouter(given, state.router, moment.now)
  const change = before ? ({ kind: "renewed", lease, before } as const) : ({ kind: "bound", lease } as const)
  return andThen(stepTo(state, [], [change]), (bound) => settle(begin, bound, lease, moment))
}

/** Gives back what the server has given, or may have given by a REPLY that was lost. */
function release(state: ClientState, moment: Moment): Step {
  const { lease = state.phase === "selecting" ? undefined : state.offer } = state
  const transaction = { xid: randomXid(24, moment), begunAt: moment.now, deadline: undefined }
  const ended = changed(forget(state), { phase: "ended", ...transaction })
  if (!lease || !holds(lease, moment)) return stepTo(ended)
  const content = { address: lease, server: lease.serverDuid }
  return stepTo(ended, [encodeMessage6(ended, MessageType6.Release, moment.now, content)])
}
