import { AF_INET } from "../../../pkg/types/mod.ts"
import { advance4 } from "./client4.ts"
import { advance6 } from "./client6.ts"
import type { ClientConfig, ClientEvent, ClientState, Moment, Step } from "./types.ts"

/** Returns a client that has done nothing yet: `advance` it by "start". */
export function createClient(config: ClientConfig): ClientState {
  return { config, phase: "init", xid: 0, begunAt: 0, sent: 0, waitMs: 0, failures: 0 }
}

/**
 * Returns what follows when something happens to a client. Nothing else decides: the same arguments give the same step. Never
 * throws for what a frame holds. Until the next event, "time" is due at `state.deadline`.
 */
export function advance(state: ClientState, event: ClientEvent, moment: Moment): Step {
  return state.config.family === AF_INET ? advance4(state, event, moment) : advance6(state, event, moment)
}
