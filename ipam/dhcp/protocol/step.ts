import type { Change, ClientState, Moment, Phase, RouterSeen, Step } from "./types.ts"

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
