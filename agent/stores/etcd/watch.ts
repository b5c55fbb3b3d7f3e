import { linesOf } from "../lines.ts"
import { MemberFault } from "./fault.ts"
import type { Gateway } from "./gateway.ts"
import { Pulse, type PulseLimits } from "./pulse.ts"
import { readRange, readWatchMessage, toBase64, type WatchMessage } from "./wire.ts"

/**
 * The messages of one watch of one member, beginning with the one that confirms it. Ends when `signal` is aborted. Where the stream
 * ends otherwise it throws `MemberFault`, or what `fetch` throws.
 */
export async function* watchMember(
  gateway: Gateway,
  endpoint: string,
  range: { readonly key: string; readonly end: string; readonly fromRevision: bigint },
  limits: PulseLimits,
  signal: AbortSignal,
): AsyncGenerator<WatchMessage> {
  const [key, range_end] = [toBase64(range.key), toBase64(range.end)]
  const create_request = { key, range_end, start_revision: String(range.fromRevision), progress_notify: true }
  const oneKey = { key, range_end, limit: "1", keys_only: true, serializable: true }
  const question = { path: "/v3/kv/range", body: oneKey, read: readRange }
  const askForLife = () => gateway.signOfLife(endpoint, question, limits.idleMs / 2)
  using pulse = new Pulse(limits, askForLife)
  try {
    const ends = AbortSignal.any([signal, pulse.signal])
    const response = await gateway.open(endpoint, "/v3/watch", { create_request }, ends)
    for await (const line of linesOf(response.body ?? [])) {
      pulse.beat()
      yield readWatchMessage(line)
    }
  } catch (error) {
    if (signal.aborted) return
    throw pulse.signal.aborted ? pulse.signal.reason : error
  }
  if (!signal.aborted) throw new MemberFault("no answer", "the stream of changes ended")
}
