import { messageOf } from "../../../pkg/types/mod.ts"
import { StoreError } from "../../store.ts"
import { Connections } from "../../tls.ts"
import { type Connection, ConnectionTls } from "./connection.ts"

/** A request to the API server. */
export interface ApiRequest {
  /** For messages: `create block "pods/10.64.3.0/26"`. */
  readonly what: string
  readonly method: "GET" | "POST" | "PUT" | "DELETE"
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** "application/json", or the form with metadata alone. */
  readonly accept?: string
  readonly signal?: AbortSignal
}

/** What the API server answered: an object, or a `Status` that says what was wrong. */
export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the API, whose readers check what they use
  readonly body: any
}

/** How long one request may take, with all that the server makes it wait: a list of 5,000 nodes takes a busy server some seconds. */
const requestMs = 60_000

/** How often a request is sent again that the server had no time for (429), and how long at most it waits for that. */
const mostTries = 5
const longestWaitMs = 10_000

/** After these the server may have made the change: its answer came from a gateway, or from a time limit. */
const unknownStatus = [408, 500, 502, 503, 504]

/** Metadata alone, of lists, single objects and watches: a node's status is a hundred times as long. */
export const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
export const metadataOfEach = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

/** A client of the API server. Certificates and the token are those that are in their files when a request is sent: they rotate. */
export class ApiClient implements AsyncDisposable {
  readonly #connection: Connection
  readonly #connections: Connections
  readonly #closing = new AbortController()

  constructor(connection: Connection) {
    this.#connection = connection
    this.#connections = new Connections(new ConnectionTls(connection))
  }

  get server(): string {
    return this.#connection.server
  }

  /** Sends a request and reads the whole answer. Throws `StoreError` where none came. */
  async call(request: ApiRequest): Promise<Answer> {
    const limit = AbortSignal.timeout(requestMs)
    const response = await this.open(request, limit)
    return { status: response.status, body: await this.#read(request, response) }
  }

  /** As `call`, for requests that have to succeed. */
  async require(request: ApiRequest): Promise<Answer["body"]> {
    const answer = await this.call(request)
    if (answer.status >= 300) throw refusal(request, answer)
    return answer.body
  }

  /**
   * Sends a request and returns the answer while it comes; `limit` is how long that may take. A server that has no time (429) or whose caches
   * are not filled yet is asked again when it says.
   */
  async open(request: ApiRequest, limit?: AbortSignal): Promise<Response> {
    for (let tries = 1; ; tries++) {
      const response = await this.#send(request, limit)
      if (response.status !== 429 || tries === mostTries) return response
      await response.body?.cancel()
      await this.wait(retryAfterMs(response), request.signal)
    }
  }

  /** Waits, and no longer than until `signal` is aborted or this client is closed. */
  async wait(ms: number, signal?: AbortSignal): Promise<void> {
    const end = AbortSignal.any([this.#closing.signal, ...(signal ? [signal] : [])])
    if (end.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    end.addEventListener("abort", () => resolve(), { once: true })
    await promise
    clearTimeout(timer)
  }

  async #send(request: ApiRequest, limit?: AbortSignal): Promise<Response> {
    const { method, path, query, body, accept = "application/json" } = request
    const signals = [this.#closing.signal, ...(limit ? [limit] : []), ...(request.signal ? [request.signal] : [])]
    try {
      const token = await this.#connection.token?.read()
      const url = `${this.server}${path}${query ? `?${new URLSearchParams(query)}` : ""}`
      return await this.#connections.fetch(url, {
        method,
        headers: {
          accept,
          ...(token !== undefined && { authorization: `Bearer ${token.trim()}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.any(signals),
        // A connection that was used before may be closed just now, and then Bun sends the request again: a write that was made
        // already would be answered with "conflict".
        keepalive: method === "GET",
      })
    } catch (cause) {
      throw this.#unanswered(request, cause)
    }
  }

  async #read(request: ApiRequest, response: Response): Promise<Answer["body"]> {
    let text: string
    try {
      text = await response.text()
    } catch (cause) {
      throw this.#unanswered(request, cause)
    }
    try {
      return JSON.parse(text)
    } catch {
      // A gateway before the server answers in HTML or plain text.
      if (response.status >= 300) return { message: text.slice(0, 200) }
      throw this.#unanswered(request, "the answer is not JSON")
    }
  }

  #unanswered(request: ApiRequest, cause: unknown): StoreError {
    if (cause instanceof StoreError) return cause // a file that cannot be read
    const reason = `${this.server}: ${messageOf(cause)}`
    const isUnknown = request.method !== "GET" && !neverSent(cause)
    return new StoreError(`Cannot ${request.what}: ${reason}`, isUnknown ? "unknown" : "refused", cause)
  }

  /** Ends what still waits for an answer. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the store was closed"))
    this.#connections[Symbol.dispose]()
  }
}

/** The error for an answer that is not the one that was hoped for. */
export function refusal({ what, method }: ApiRequest, { status, body }: Answer): StoreError {
  const reason = typeof body?.message === "string" && body.message !== "" ? body.message : "no reason given"
  const isUnknown = method !== "GET" && unknownStatus.includes(status)
  return new StoreError(`Cannot ${what}: HTTP ${status}: ${reason}`, isUnknown ? "unknown" : "refused")
}

/** Whether a request failed before a byte of it left: no connection, a certificate that is not trusted. */
function neverSent(cause: unknown): boolean {
  const code = String((cause as { code?: unknown } | null)?.code ?? "")
  return /^(ConnectionRefused|ECONNREFUSED|FailedToOpenSocket|ENOTFOUND|EAI_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CERT_|ERR_TLS_CERT)/.test(
    code,
  )
}

function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? 1)
  return Math.min(Number.isFinite(seconds) ? seconds * 1000 : 1000, longestWaitMs)
}
