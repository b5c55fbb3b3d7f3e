import { messageOf } from "../../pkg/types/mod.ts"
import { type ApiClient, GoneError, pause, refusal } from "./client.ts"
import { linesOf, piecesOf } from "./lines.ts"

/** A JSON object of the API, whose reader checks the properties that it uses. */
// biome-ignore lint/suspicious/noExplicitAny: JSON of the API
export type ApiObject = any

/** Receives all objects of a kind, and their changes. */
export interface Follower {
  readonly path: string
  /** The kind of the list, such as "NodeList". */
  readonly kind: string
  /** Begins a complete list: `put` receives every object that exists, until `complete`. */
  begin(): void
  put(object: ApiObject): void
  /** Ends a complete list. Throws if the list is implausible. `follow` then lists again. */
  complete(): void
  removed(object: ApiObject): void
  /** Receives the reason why the objects cannot be followed, or undefined when they can be followed again. */
  fault(message: string | undefined): void
}

/** The maximum number of objects in a page. It limits memory, which holds a page as text and as objects. */
const PAGE = "50"
/** The duration of a watch in seconds. A watch ends earlier if not even a bookmark, sent each minute, arrives. */
const WATCH_S = 300
const SILENCE_MS = 150_000
/** A watch that ends within this time is repeated only after a pause. */
const SHORT_MS = 1_000
/** The timeout of a page in milliseconds. A busy server needs some seconds for the first page. */
const PAGE_MS = 60_000
const RETRY_MIN_MS = 500
const RETRY_MAX_MS = 30_000

/**
 * Follows the objects of a kind until `signal` is aborted. Lists all objects, then watches changes. Lists all objects
 * again if changes were missed, and after an error. Never throws.
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
      await pause(retryMs * (0.5 + Math.random() / 2), signal) // a random factor, so that the agents of many nodes do not send requests at the same time
      retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)
    }
  }
}

/** Reads all objects, page by page. Returns the revision from which a watch can continue. */
async function list(client: ApiClient, follower: Follower, signal: AbortSignal): Promise<string> {
  follower.begin()
  for (let next = ""; ; ) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(PAGE_MS)])
    const response = await client.get(follower.path, { limit: PAGE, ...(next && { continue: next }) }, limited)
    const { kind, items, metadata }: ApiObject = await response.json()
    // A response that is not a list must not count as an empty list, because all nodes would seem to be deleted. Go
    // writes an empty list as null.
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
 * Runs one watch. Returns the revision from which to continue, or undefined if the server lost the changes since
 * `from`.
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
    silence.abort() // closes the connection
  }
  return revision
}
