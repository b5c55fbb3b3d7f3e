import { type ErrnoName, isErrno } from "../libc/mod.ts"
import type { Request } from "./channel.ts"
import { isAlreadyDone, isLost } from "./lost-answers.ts"
import { NetlinkError, NLM_F_ACK } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"

/** A request that the kernel refused, with the reason. */
export interface Refusal<R extends Request = Request> {
  readonly request: R
  readonly error: NetlinkError
}

/** The number of requests in a datagram. All refusals together fit into the socket's receive buffer. */
const BATCH = 100

/**
 * Sends independent requests, many in one datagram, and waits until the kernel has processed all of them. A refused
 * request does not stop the others. Returns the refusals. Throws `NetlinkError` if an answer is lost repeatedly, and
 * `ETIME` if the socket's budget ends before the last request. With `isBounded` false the budget is ignored: for the
 * undo of an ADD, and for requests whose number the configuration determines.
 */
export function executeAll<R extends Request>(
  route: NetlinkSocket,
  requests: readonly R[],
  { isBounded = true } = {},
): Refusal<R>[] {
  return route.spend(() => {
    const refusals: Refusal<R>[] = []
    for (let at = 0; at < requests.length; at += BATCH) {
      if (at > 0 && isBounded) route.step(requests[at]?.what ?? "")
      refusals.push(...executeSome(route, requests.slice(at, at + BATCH)))
    }
    return refusals
  })
}

/** Throws the error of the first refusal whose errno is not one of `tolerated`. */
export function throwFirst(refusals: readonly Refusal[], ...tolerated: ErrnoName[]): void {
  for (const { error } of refusals) if (!tolerated.some((name) => isErrno(error, name))) throw error
}

/**
 * Sends requests in one datagram. If an answer is lost, sends each again; a change that was already made is not
 * refused.
 */
function executeSome<R extends Request>(route: NetlinkSocket, batch: readonly R[]): Refusal<R>[] {
  try {
    return executeBatch(route, batch)
  } catch (error) {
    if (!isLost(error)) throw error
    return batch.flatMap((request) => executeAlone(route, request))
  }
}

/**
 * Sends requests in one datagram, of which only the last has `NLM_F_ACK`. When that acknowledgement arrives, the kernel
 * has processed all others and has answered those that it refused.
 */
function executeBatch<R extends Request>(route: NetlinkSocket, batch: readonly R[]): Refusal<R>[] {
  const last = batch.length - 1
  const flagsOf = ({ flags = 0 }: Request, at: number) => (at === last ? flags | NLM_F_ACK : flags)
  const answers = route.sendAll(batch.map((request, at) => ({ ...request, flags: flagsOf(request, at), at })))
  const refusals: Refusal<R>[] = []
  for (;;) {
    for (const { request, refusal } of answers()) {
      if (refusal) refusals.push({ request: batch[request.at] as R, error: refusal })
      if (request.at === last) return refusals
    }
  }
}

function executeAlone<R extends Request>(route: NetlinkSocket, request: R): Refusal<R>[] {
  try {
    route.execute(request)
    return []
  } catch (error) {
    if (isAlreadyDone(request, error)) return []
    if (error instanceof NetlinkError && !error.isLost) return [{ request, error }]
    throw error
  }
}
