import { StoreError } from "../../store.ts"
import { linesOf } from "../lines.ts"
import { type Answer, type ApiClient, type ApiRequest, refusal } from "./client.ts"
import type { ApiObject, Resource } from "./objects.ts"

/** Objects of one kind: all, or those that a selector of fields names. */
export interface Selection {
  readonly resource: Resource
  readonly fieldSelector?: string
  /** The form of a list, and of each object of a watch; both whole when absent. */
  readonly accept?: { readonly list: string; readonly watch: string }
}

export type Change =
  | { readonly type: "all"; readonly objects: readonly ApiObject[] }
  | { readonly type: "put"; readonly object: ApiObject }
  | { readonly type: "removed"; readonly object: ApiObject }

export interface Listed {
  readonly objects: ApiObject[]
  /** The resourceVersion of the list: a watch goes on from there. */
  readonly revision: string
}

const pageLimit = "500"

/** How long a server lets one watch run, and how long a silent one is believed: about each minute a bookmark comes. */
const watchS = 300
const silenceMs = 150_000

/** A watch that ends sooner than this is opened again after a pause. */
const shortWatchMs = 1000

/** The history that a list or a watch should go on from is no longer kept. */
const GONE = 410

/** All objects at one revision, page by page. A list that expires between two pages begins anew. */
export async function listObjects(client: ApiClient, selection: Selection, signal?: AbortSignal): Promise<Listed> {
  for (;;) {
    const listed = await listPages(client, selection, signal)
    if (listed) return listed
  }
}

async function listPages(client: ApiClient, selection: Selection, signal?: AbortSignal): Promise<Listed | undefined> {
  const objects: ApiObject[] = []
  let next = ""
  for (;;) {
    const page = { limit: pageLimit, ...(next && { continue: next }) }
    const request = requestFor(selection, "list", page, signal)
    const answer = await client.call(request)
    if (answer.status === GONE && next) return undefined
    if (answer.status !== 200) throw refusal(request, answer)
    objects.push(...itemsOf(request, answer))
    next = answer.body.metadata.continue ?? ""
    if (!next) return { objects, revision: answer.body.metadata.resourceVersion }
  }
}

/** An answer that is no list must not pass for one without objects: blocks would look free, and nodes gone. */
function itemsOf(request: ApiRequest, { body }: Answer): ApiObject[] {
  if (Array.isArray(body?.items) && typeof body.metadata?.resourceVersion === "string") return body.items
  throw new StoreError(`Cannot ${request.what}: the answer is not a list`, "refused")
}

function requestFor(
  { resource, fieldSelector, accept }: Selection,
  verb: "list" | "watch",
  query: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): ApiRequest {
  return {
    what: `${verb} objects of kind ${resource.kind}`,
    method: "GET",
    path: resource.path,
    query: { ...query, ...(fieldSelector && { fieldSelector }) },
    ...(accept && { accept: accept[verb] }),
    ...(signal && { signal }),
  }
}

/**
 * Follows objects: all that there are, then each change. All come again after a gap in the server's history. A connection that
 * breaks is opened again where it broke. Throws `StoreError` where that cannot be done; ends with `signal`.
 */
export async function* followObjects(
  client: ApiClient,
  selection: Selection,
  signal: AbortSignal,
): AsyncGenerator<Change, void> {
  while (!signal.aborted) {
    let from: string | undefined
    try {
      const { objects, revision } = await listObjects(client, selection, signal)
      yield { type: "all", objects }
      from = revision
      while (from !== undefined && !signal.aborted) {
        const began = performance.now()
        from = yield* watchFrom(client, selection, from, signal)
        if (performance.now() - began < shortWatchMs) await client.wait(shortWatchMs, signal)
      }
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
  }
}

/** One watch. Returns the revision that the next one begins at; `undefined` when the history before it is no longer kept. */
async function* watchFrom(
  client: ApiClient,
  selection: Selection,
  from: string,
  signal: AbortSignal,
): AsyncGenerator<Change, string | undefined> {
  const query = { watch: "1", resourceVersion: from, allowWatchBookmarks: "true", timeoutSeconds: String(watchS) }
  const silence = new AbortController()
  const request = requestFor(selection, "watch", query, AbortSignal.any([signal, silence.signal]))
  const isAwake = setTimeout(() => silence.abort(), silenceMs)
  let revision = from
  try {
    const response = await client.open(request)
    if (response.status === GONE) return undefined
    if (response.status !== 200) {
      throw refusal(request, { status: response.status, body: await response.json().catch(() => undefined) })
    }
    for await (const line of linesOf(piecesOf(response))) {
      isAwake.refresh()
      const { type, object } = JSON.parse(line)
      if (type === "ERROR") {
        if (object?.code === GONE) return undefined
        throw refusal(request, { status: object?.code ?? 500, body: object })
      }
      revision = object.metadata.resourceVersion
      if (type === "DELETED") yield { type: "removed", object }
      else if (type !== "BOOKMARK") yield { type: "put", object }
    }
  } catch (error) {
    if (!silence.signal.aborted || signal.aborted) throw error
  } finally {
    clearTimeout(isAwake)
    silence.abort() // also when the reader has had enough: the connection is closed
  }
  return revision
}

/** An answer while it comes. One that breaks off ends here. */
async function* piecesOf(response: Response): AsyncGenerator<Uint8Array, void> {
  const reader = response.body?.getReader()
  for (;;) {
    const piece = await reader?.read().catch(() => undefined)
    if (!piece || piece.done) return
    yield piece.value
  }
}
