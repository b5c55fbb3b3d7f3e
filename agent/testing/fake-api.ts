/**
 * A fake API server with Node objects, and with those that kube-proxy reads: lists in pages, watches with bookmarks, and
 * the real server's answers and errors. Its test cases also run against a real kube-apiserver (integration/kubernetes).
 *
 *   bun agent/testing/fake-api.ts ADDRESS PORT     serves until it is killed
 */
import type { ApiObject } from "../api/follow.ts"

interface Event {
  readonly collection: string
  readonly revision: number
  readonly type: "ADDED" | "MODIFIED" | "DELETED"
  readonly object: ApiObject
}

/** Faults that tests inject. `POST /fake` with these keys changes them. */
export interface Troubles {
  /** The number of requests that get status 429, and the `Retry-After` header of these responses. */
  overload?: number
  retryAfterS?: number
  /** Whether every request gets status 503. */
  down?: boolean
  /** Whether all lists are empty: `"items": null`. */
  empty?: boolean
  /** A text that replaces the response to each list request, such as a proxy's error page. */
  wrong?: string
  /** The accepted tokens, or all if absent. Tokens in `forbidden` may not read nodes. */
  tokens?: readonly string[]
  forbidden?: readonly string[]
}

const PATH = "/api/v1/nodes"
/** The kinds of objects, by the path of their collection without a namespace. */
const kinds: Readonly<Record<string, { kind: string; apiVersion: string }>> = {
  [PATH]: { kind: "Node", apiVersion: "v1" },
  "/api/v1/services": { kind: "Service", apiVersion: "v1" },
  "/apis/discovery.k8s.io/v1/endpointslices": { kind: "EndpointSlice", apiVersion: "discovery.k8s.io/v1" },
  "/apis/networking.k8s.io/v1/servicecidrs": { kind: "ServiceCIDR", apiVersion: "networking.k8s.io/v1" },
}

export class FakeApi implements AsyncDisposable {
  readonly #server: Bun.Server<undefined>
  readonly #objects = new Map(Object.keys(kinds).map((path) => [path, new Map<string, ApiObject>()]))
  readonly #watches = new Set<(event: Event) => void>()
  readonly #ends = new Set<() => void>()
  #events: Event[] = []
  #revision = 1
  /** The oldest revision that the history still contains. */
  #oldest = 0
  troubles: Troubles = {}
  /** The received requests, as paths with queries. */
  readonly requests: string[] = []

  constructor(options: { hostname?: string; port?: number; tls?: { cert: string; key: string } } = {}) {
    const { hostname = "127.0.0.1", port = 0, tls } = options
    this.#server = Bun.serve({
      hostname,
      port,
      ...(tls && { tls }),
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    })
  }

  get url(): string {
    return this.#server.url.href.replace(/\/$/, "")
  }

  #in(collection: string): Map<string, ApiObject> {
    return this.#objects.get(collection) ?? new Map()
  }

  put(object: ApiObject, collection = PATH): void {
    const { name } = object.metadata
    const before = this.#in(collection).get(name)
    const uid = before?.metadata.uid ?? crypto.randomUUID()
    const metadata = { ...object.metadata, uid, resourceVersion: String(++this.#revision) }
    const now = { ...kinds[collection], ...object, metadata }
    this.#in(collection).set(name, now)
    this.#tell({ collection, revision: this.#revision, type: before ? "MODIFIED" : "ADDED", object: now })
  }

  remove(name: string, collection = PATH): boolean {
    const object = this.#in(collection).get(name)
    if (object === undefined) return false
    this.#in(collection).delete(name)
    const metadata = { ...object.metadata, resourceVersion: String(++this.#revision) }
    this.#tell({ collection, revision: this.#revision, type: "DELETED", object: { ...object, metadata } })
    return true
  }

  /** Drops the history like a compaction. Watches and pages that continue from an earlier revision get status 410. */
  forget(): void {
    this.#oldest = ++this.#revision
    this.#events = []
    this.endWatches()
  }

  /** Ends all watches, like a restart of the server. */
  endWatches(): void {
    for (const end of [...this.#ends]) end()
  }

  /** Sends a bookmark to each watch, as the real server does about each minute. */
  bookmark(): void {
    const metadata = { resourceVersion: String(this.#revision), creationTimestamp: null }
    const object = { kind: "Node", apiVersion: "v1", metadata, spec: {}, status: {} }
    const type = "BOOKMARK" as Event["type"]
    for (const watch of this.#watches) watch({ collection: PATH, revision: this.#revision, type, object })
  }

  #tell(event: Event): void {
    this.#events.push(event)
    for (const watch of this.#watches) watch(event)
  }

  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url)
    const { pathname, searchParams } = url
    if (pathname === "/readyz") return new Response("ok")
    if (pathname === "/fake") return this.#control((await request.json()) as Troubles)
    this.requests.push(pathname + url.search)
    const refused = this.#refuse(request)
    if (refused) return refused
    const path = pathname.replace("/namespaces/default/", "/")
    const collection = Object.keys(kinds).find((each) => path === each || path.startsWith(`${each}/`))
    if (collection === undefined) return status(404, "NotFound", "the server could not find the requested resource")
    const objects = this.#in(collection)
    const name = path.slice(collection.length + 1).replace(/\/status$/, "")
    const noSuchObject = () => status(404, "NotFound", `${collection.replace(/.*\//, "")} "${name}" not found`)
    if (request.method === "GET" && name !== "")
      return objects.has(name) ? Response.json(objects.get(name)) : noSuchObject()
    if (request.method === "GET")
      return searchParams.has("watch") ? this.#watch(searchParams, collection) : this.#list(searchParams, collection)
    if (request.method === "DELETE") {
      const names = name === "" ? [...objects.keys()] : [name]
      return names.map((each) => this.remove(each, collection)).every(Boolean) ? status(200, "", "") : noSuchObject()
    }
    const object = (await request.json()) as ApiObject
    if (path !== pathname) Object.assign(object.metadata, { namespace: "default" })
    if (request.method === "POST" && objects.has(object.metadata.name))
      return status(409, "AlreadyExists", `nodes "${object.metadata.name}" already exists`)
    this.put(pathname.endsWith("/status") ? { ...objects.get(name), status: object.status } : object, collection)
    return Response.json(objects.get(object.metadata.name), { status: request.method === "POST" ? 201 : 200 })
  }

  #control(changes: Troubles & { forget?: boolean; endWatches?: boolean }): Response {
    const { forget, endWatches, ...troubles } = changes
    Object.assign(this.troubles, troubles)
    if (forget) this.forget()
    if (endWatches) this.endWatches()
    return new Response("ok")
  }

  #refuse(request: Request): Response | undefined {
    const { overload = 0, retryAfterS = 1, down, tokens, forbidden = [] } = this.troubles
    if (overload > 0) {
      this.troubles.overload = overload - 1
      return status(429, "TooManyRequests", "too many requests, please try again later", {
        "retry-after": String(retryAfterS),
      })
    }
    if (down) return status(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    const token = request.headers.get("authorization")?.replace(/^Bearer /, "") ?? ""
    if (tokens && !tokens.includes(token)) return status(401, "Unauthorized", "Unauthorized")
    if (!forbidden.includes(token)) return undefined
    return status(
      403,
      "Forbidden",
      `nodes is forbidden: User "${token}" cannot list resource "nodes" in API group "" at the cluster scope`,
    )
  }

  #list(query: URLSearchParams, collection: string): Response {
    const { empty, wrong } = this.troubles
    if (wrong !== undefined) return new Response(wrong, { headers: { "content-type": "application/json" } })
    // A page continues the current list: names are sorted, and objects created since the first page may be missing.
    const [revision = "", from = ""] = (query.get("continue") ?? "").split(" ")
    if (revision !== "" && Number(revision) < this.#oldest)
      return status(410, "Expired", "The provided continue parameter is too old to display a consistent list result")
    const objects = this.#in(collection)
    const names = [...objects.keys()].sort().filter((name) => from === "" || name > from)
    const limit = Number(query.get("limit") ?? 0) || names.length
    const page = empty ? [] : names.slice(0, limit)
    const at = revision || String(this.#revision)
    const isMore = !empty && names.length > page.length
    const metadata = {
      resourceVersion: at,
      ...(isMore && { continue: `${at} ${page.at(-1)}`, remainingItemCount: names.length - page.length }),
    }
    const items = page.map((name) => objects.get(name))
    const { kind, apiVersion } = kinds[collection] ?? {}
    return Response.json({ kind: `${kind}List`, apiVersion, metadata, items: items.length === 0 ? null : items })
  }

  #watch(query: URLSearchParams, collection: string): Response {
    const from = Number(query.get("resourceVersion") ?? 0)
    const [watches, ends] = [this.#watches, this.#ends]
    const past = this.#events.filter(({ revision }) => revision > from)
    const isExpired = from < this.#oldest
    const encoder = new TextEncoder()
    let tell: ((event: Event) => void) | undefined
    let end: (() => void) | undefined
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        const send = (type: string, object: unknown) =>
          controller.enqueue(encoder.encode(`${JSON.stringify({ type, object })}\n`))
        tell = (event) => {
          if (event.collection === collection) send(event.type, event.object)
        }
        end = () => {
          if (tell) watches.delete(tell)
          if (end) ends.delete(end)
          controller.close()
        }
        if (isExpired) {
          send("ERROR", statusObject(410, "Expired", `too old resource version: ${from}`))
          return end()
        }
        for (const event of past) tell(event)
        watches.add(tell)
        ends.add(end)
        controller.enqueue(encoder.encode("\n")) // sends the headers immediately
      },
      cancel() {
        if (tell) watches.delete(tell)
        if (end) ends.delete(end)
      },
    })
    return new Response(body, { headers: { "content-type": "application/json" } })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true)
  }
}

function statusObject(code: number, reason: string, message: string): object {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: code < 400 ? "Success" : "Failure",
    message,
    reason,
    code,
  }
}

function status(code: number, reason: string, message: string, headers: Record<string, string> = {}): Response {
  return Response.json(statusObject(code, reason, message), { status: code, headers })
}

/** Returns a Node object as kubelet and the range controller write it. `padding` makes it as long as a real one. */
export function nodeObject(
  name: string,
  podCIDRs: readonly string[],
  addresses: readonly string[],
  padding = 0,
): ApiObject {
  const images = Array.from({ length: Math.ceil(padding / 200) }, (_, at) => ({
    names: [
      `registry.example/team/image-${at}@sha256:${String(at).padStart(64, "0")}`,
      `registry.example/team/image-${at}:v1.2.3`,
    ],
    sizeBytes: 1_000_000 + at,
  }))
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "kubernetes.io/hostname": name } },
    spec: podCIDRs.length === 0 ? {} : { podCIDR: podCIDRs[0], podCIDRs },
    status: {
      addresses: [
        ...addresses.map((address) => ({ type: "InternalIP", address })),
        { type: "Hostname", address: name },
      ],
      ...(images.length > 0 && { images }),
    },
  }
}

if (import.meta.main) {
  const [hostname = "127.0.0.1", port = "0"] = process.argv.slice(2)
  console.log(new FakeApi({ hostname, port: Number(port) }).url)
}
