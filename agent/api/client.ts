import { messageOf } from "../../pkg/types/mod.ts"
import type { Connection } from "./connection.ts"

/** The most attempts for a request that an overloaded server rejects (429), and the longest pause between attempts. */
const TRIES_MAX = 5
const WAIT_MAX_MS = 30_000

interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** HTTP 410: the server no longer has the history with which a list or a watch should continue. */
export class GoneError extends Error {}

/** A client of the API server. Reads the files of certificates and tokens for each request, because these expire. */
export class ApiClient implements Disposable {
  readonly #connection: Connection
  #material: TlsMaterial = {}
  #session: Bun.FetchSession | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get server(): string {
    return this.#connection.server
  }

  /**
   * Sends a GET request and returns the response while it arrives. If the server is overloaded (429), tries again after
   * the pause that the response requests. Throws `GoneError` for HTTP 410, and an error with the reason for any other
   * status except 200.
   */
  async get(path: string, query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Response> {
    for (let tries = 1; ; tries++) {
      const response = await this.#send(`${path}?${new URLSearchParams(query)}`, signal)
      if (response.status === 200) return response
      const text = await response.text().catch(() => "")
      if (response.status !== 429 || tries === TRIES_MAX) throw refusal(response.status, text)
      await pause(retryAfterMs(response), signal)
    }
  }

  async #send(path: string, signal: AbortSignal): Promise<Response> {
    try {
      const token = await this.#connection.token?.read()
      const headers = {
        accept: "application/json",
        ...(token !== undefined && { authorization: `Bearer ${token.trim()}` }),
      }
      const session = await this.#sessionNow()
      return await session.fetch(`${this.server}${path}`, { headers, signal, redirect: "manual" })
    } catch (cause) {
      throw new Error(`Cannot query the API server ${this.server}: ${messageOf(cause)}`, { cause })
    }
  }

  /**
   * Returns the session, or a new one if the certificates have changed. The session reuses connections, without a
   * proxy.
   */
  async #sessionNow(): Promise<Bun.FetchSession> {
    const { ca, certificate, key } = this.#connection
    const tls: TlsMaterial = {
      ...(ca && { ca: await ca.read() }),
      ...(certificate && { cert: await certificate.read() }),
      ...(key && { key: await key.read() }),
    }
    if (this.#session === undefined || !Bun.deepEquals(tls, this.#material)) {
      this.#session?.close()
      this.#session = new Bun.FetchSession({ tls: { ...tls }, proxy: false })
      this.#material = tls
    }
    return this.#session
  }

  [Symbol.dispose](): void {
    this.#session?.close()
    this.#session = undefined
  }
}

/** Returns the error for an unexpected response. */
export function refusal(status: number, text: string): Error {
  const message = `The API server answers HTTP ${status}: ${messageIn(text)}${hints[status] ?? ""}`
  return status === 410 ? new GoneError(message) : new Error(message)
}

const hints: Readonly<Record<number, string>> = {
  401: "; the token is missing, has expired, or belongs to another cluster",
  403: "; the account needs get, list and watch of nodes",
}

/** Returns the message of a `Status` object, or the first 200 characters of other text, such as a gateway's HTML. */
function messageIn(text: string): string {
  try {
    const { message } = JSON.parse(text)
    if (typeof message === "string" && message !== "") return message
  } catch {}
  return text.trim().slice(0, 200) || "no reason given"
}

function retryAfterMs(response: Response): number {
  const seconds = Number(response.headers.get("retry-after") ?? 1)
  return Math.min(Number.isFinite(seconds) ? seconds * 1000 : 1000, WAIT_MAX_MS)
}

/** Waits until the time is over, or until `signal` is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => resolve()
  const timer = setTimeout(end, ms)
  signal.addEventListener("abort", end)
  await promise
  signal.removeEventListener("abort", end)
  clearTimeout(timer)
}
