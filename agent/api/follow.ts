import { messageOf } from "../../pkg/types/mod.ts"
import { type ApiClient, GoneError, pause, refusal } from "./client.ts"
import { linesOf, piecesOf } from "./lines.ts"

/** An object of the API: JSON whose reader checks the parts that it uses. */
// biome-ignore lint/suspicious/noExplicitAny: JSON of the API
export type ApiObject = any

/** Receives the objects of a list. */
export interface Follower {
  readonly path: string
  /** "NodeList" */
  readonly kind: string
  /** Starts a complete list: `put` gets every object. Objects that are missing at the end no longer exist. */
  begin(): void
  put(object: ApiObject): void
  /** Ends a complete list. Throws if the list is not plausible: then it counts as failed. */
  complete(): void
  removed(object: ApiObject): void
  /** Reports why the objects cannot be followed; undefined once they can. */
  fault(message: string | undefined): void
}

/**
 * The size of a page. In memory, a page of 50 nodes of some 15 kB each takes the space of its text and of its objects.
 */
const PAGE = "50"
/** The duration of a watch. A watch without any event, including the bookmark about every minute, ends earlier. */
const WATCH_S = 300
const SILENCE_MS = 150_000
/** A watch that ends sooner than this is repeated after a pause. */
const SHORT_MS = 1_000
/** The time limit of a page: a busy server needs some seconds for the first. */
const PAGE_MS = 60_000
const RETRY_MIN_MS = 500
const RETRY_MAX_MS = 30_000

/**
 * Follows a list until `signal` is aborted: all objects, then each change; all again after a gap or an error. Never
 * throws.
 */
export async function follow(client: ApiClient, follower: Follower, signal: AbortSignal): Promise<void> {
  let retryMs = RETRY_MIN_MS
  while (!signal.aborted) {
    try {
      let revision: string | undefined = await list(client, follower, signal)
      follower.fault(undefined)
      retryMs = RETRY_MIN_MS
      while (revision !== undefined && !signal.aborted) {
        const began = performance.now()
        revision = await watch(client, follower, revision, signal)
        if (performance.now() - began < SHORT_MS) await pause(SHORT_MS, signal)
      }
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof GoneError)) follower.fault(messageOf(error))
      await pause(retryMs * (0.5 + Math.random() / 2), signal) // the agents of many nodes do not ask at the same time
      retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)
    }
  }
}

/** Reads all objects, page by page; returns the revision at which a watch continues. */
async function list(client: ApiClient, follower: Follower, signal: AbortSignal): Promise<string> {
  follower.begin()
  for (let next = ""; ; ) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(PAGE_MS)])
    const response = await client.get(follower.path, { limit: PAGE, ...(next && { continue: next }) }, limited)
    const { kind, items, metadata }: ApiObject = await response.json()
    // An answer that is not a list must not count as an empty list: every node would seem to be deleted. Go writes an
    // empty list as null.
    const isList = kind === follower.kind && (items === null || Array.isArray(items))
    if (!isList || typeof metadata?.resourceVersion !== "string")
      throw new Error(`The API server ${client.server} did not return a ${follower.kind}`)
    for (const item of items ?? []) follower.put(item)
    Bun.gc(false)
    next = metadata.continue ?? ""
    if (next !== "") continue
    follower.complete()
    return metadata.resourceVersion
  }
}

/**
 * Runs one watch. Returns the revision at which the next one starts; undefined if the history before it is no longer
 * kept.
 */
async function watch(
  client: ApiClient,
  follower: Follower,
  from: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { watch: "1", resourceVersion: from, allowWatchBookmarks: "true", timeoutSeconds: String(WATCH_S) }
  const silence = new AbortController()
  const isAwake = setTimeout(() => silence.abort(), SILENCE_MS)
  let revision = from
  try {
    const response = await client.get(follower.path, query, AbortSignal.any([signal, silence.signal]))
    for await (const line of linesOf(piecesOf(response))) {
      isAwake.refresh()
      const { type, object }: ApiObject = JSON.parse(line)
      if (type === "ERROR") throw refusal(object?.code ?? 500, JSON.stringify(object))
      revision = object.metadata.resourceVersion
      if (type === "DELETED") follower.removed(object)
      else if (type !== "BOOKMARK") follower.put(object)
    }
  } catch (error) {
    if (error instanceof GoneError) return undefined
    if (!silence.signal.aborted || signal.aborted) throw error
  } finally {
    clearTimeout(isAwake)
    silence.abort() // the connection is closed
  }
  return revision
}
