import { messageOf } from "../../pkg/types/mod.ts"
import { type ApiClient, GoneError, pause, refusal } from "./client.ts"
import { linesOf, piecesOf } from "./lines.ts"

/** An object of the API: JSON of which a reader checks what it uses. */
// biome-ignore lint/suspicious/noExplicitAny: JSON of the API
export type ApiObject = any

/** Where the objects of a list go. */
export interface Follower {
  readonly path: string
  /** "NodeList" */
  readonly kind: string
  /** All objects at one moment have been told to `put`, after `begin`; those before that are not among them are gone. */
  begin(): void
  put(object: ApiObject): void
  /** The list is complete. Throws where it cannot be believed: then it counts as failed. */
  complete(): void
  removed(object: ApiObject): void
  /** What keeps the objects from being followed; undefined once they are. */
  fault(message: string | undefined): void
}

/** Small pages: what one takes in memory is 50 nodes of some 15 kB each, as text and as objects. */
const PAGE = "50"
/** How long a server lets one watch run, and how long a silent one is believed: about each minute a bookmark comes. */
const WATCH_S = 300
const SILENCE_MS = 150_000
/** A watch that ends sooner than this is opened again after a pause. */
const SHORT_MS = 1_000
/** How long one page may take: a busy server needs some seconds for the first. */
const PAGE_MS = 60_000
const RETRY_MIN_MS = 500
const RETRY_MAX_MS = 30_000

/** Follows a list until `signal` is aborted: all objects, then each change, all again after a gap or an error. Never throws. */
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
      await pause(retryMs * (0.5 + Math.random() / 2), signal) // agents of many nodes do not ask all at once
      retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)
    }
  }
}

/** Reads all objects, page by page; returns the revision that a watch goes on from. */
async function list(client: ApiClient, follower: Follower, signal: AbortSignal): Promise<string> {
  follower.begin()
  for (let next = ""; ; ) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(PAGE_MS)])
    const response = await client.get(follower.path, { limit: PAGE, ...(next && { continue: next }) }, limited)
    const { kind, items, metadata }: ApiObject = await response.json()
    // An answer that is no list must not pass for one without objects: every node would look gone. Go writes an empty list as null.
    const isList = kind === follower.kind && (items === null || Array.isArray(items))
    if (!isList || typeof metadata?.resourceVersion !== "string")
      throw new Error(`The API server ${client.server} answers something else than a ${follower.kind}`)
    for (const item of items ?? []) follower.put(item)
    Bun.gc(false)
    next = metadata.continue ?? ""
    if (next !== "") continue
    follower.complete()
    return metadata.resourceVersion
  }
}

/** One watch. Returns the revision that the next one begins at; undefined when the history before it is no longer kept. */
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
