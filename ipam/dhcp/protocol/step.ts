import { addressText } from "./lease4.ts"
import { holds } from "./timing.ts"
import type { Change, ClientEvent, ClientState, Lease, Moment, Phase, RouterSeen, Step } from "./types.ts"

/** What may change in a state from one step to the next; `undefined` takes a property out. */
export interface StateChange {
  phase?: Phase
  xid?: number
  begunAt?: number
  secs?: number
  sent?: number
  waitMs?: number
  failures?: number
  deadline?: number | undefined
  lease?: ClientState["lease"] | undefined
  offer?: ClientState["offer"] | undefined
  router?: RouterSeen | undefined
  seen?: string
}

/** The state that follows. What is absent has no key, so that a state is the same before and after the journal. */
export function changed(state: ClientState, change: StateChange): ClientState {
  const next: Record<string, unknown> = { ...state, ...change }
  for (const key of Object.keys(change)) if (next[key] === undefined) delete next[key]
  return next as unknown as ClientState
}

/** Phases in which no frame means anything. */
const deaf: readonly Phase[] = ["init", "bound", "waiting", "ended"]

/** A step to a state, with what is to be sent and done on the way. */
export function stepTo(state: ClientState, send: readonly Uint8Array[] = [], changes: readonly Change[] = []): Step {
  return { state, send, changes, listen: !deaf.includes(state.phase) }
}

/** The steps one after the other as one. */
export function andThen(first: Step, next: (state: ClientState) => Step): Step {
  const { state, send, changes, listen } = next(first.state)
  return { state, send: [...first.send, ...send], changes: [...first.changes, ...changes], listen }
}

/** A number for a transaction, of so many bits. */
export function randomXid(bits: number, moment: Moment): number {
  return Math.floor(moment.random() * 2 ** bits)
}

/** Begins a phase's transaction, and sends its first packet. */
export type Begin = (state: ClientState, phase: Phase, moment: Moment) => Step

/** What is particular to the client of one protocol. */
export interface Protocol {
  readonly begin: Begin
  readonly onTime: (state: ClientState, moment: Moment) => Step
  readonly onFrame: (state: ClientState, frame: Uint8Array, moment: Moment) => Step
  readonly release: (state: ClientState, moment: Moment) => Step
}

/** A step of the client of a protocol. */
export function advanceBy(protocol: Protocol, state: ClientState, event: ClientEvent, moment: Moment): Step {
  const { begin, onTime, onFrame, release } = protocol
  if (state.phase === "ended") return stepTo(state)
  switch (event.kind) {
    case "start":
      return holds(state.lease, moment) ? begin(state, "rebooting", moment) : lose(begin, state, moment)
    case "time":
      return state.deadline !== undefined && moment.now >= state.deadline ? onTime(state, moment) : stepTo(state)
    case "frame":
      return onFrame(state, event.frame, moment)
    case "release":
      return release(state, moment)
  }
}

/** The state without a lease. */
export function forget(state: ClientState): ClientState {
  return changed(state, { lease: undefined, offer: undefined })
}

/** Gives up the lease, if there is one, and looks for another. */
export function lose(begin: Begin, state: ClientState, moment: Moment, why?: string): Step {
  const { lease } = state
  const reason = why ?? `the lease of ${lease && addressText(lease)} has expired`
  const lost = stepTo(forget(state), [], lease ? [{ kind: "lost", lease, why: reason }] : [])
  return andThen(lost, (free) => begin(free, "selecting", moment))
}

/** Bound to a lease: nothing to do before T1. */
export function settle(begin: Begin, state: ClientState, lease: Lease, moment: Moment): Step {
  const bound = changed(state, { phase: "bound", lease, offer: undefined, failures: 0, deadline: lease.renewAt })
  if (lease.renewAt !== undefined && moment.now >= lease.renewAt) return begin(bound, "renewing", moment)
  return stepTo(bound)
}
