import { lstatSync, mkdirSync, rmSync } from "node:fs"
import { dirname } from "node:path"
import type { Status } from "../status.ts"
import { formatMetrics, type Usage } from "./metrics.ts"

/** What the agent answers from. */
export interface Answers {
  /** Undefined until the agent knows who it is and what it owns. */
  status(): Status | undefined
  usage(): Usage
  readonly version: string
  /** What of the files of pools is not written yet. */
  missing(): readonly string[]
  /** Has the agent trust the store again that went backwards. */
  acceptStore(): Promise<void>
}

/** Bounds of a request: none has a body. */
const bounds = {
  maxRequestBodySize: 1024,
  development: false,
  error: (error: Error) => text(`${error.message}\n`, 500),
} as const

/**
 * Answers on a Unix socket of mode 0600: `GET /status`, `POST /accept-store`, and all that HTTP has. A socket that no process listens to is replaced. Throws where
 * another process listens, or the socket cannot be made.
 */
export async function serveSocket(path: string, answers: Answers): Promise<AsyncDisposable> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) {
    if (await isListening(path)) throw new Error(`Cannot listen at "${path}": another process does`)
    rmSync(path)
  }
  const before = process.umask(0o177)
  try {
    return disposable(Bun.serve({ unix: path, fetch: (request) => answer(request, answers, true), ...bounds }), path)
  } finally {
    process.umask(before)
  }
}

/** Answers on an address and port: `GET /metrics`, `/healthz`, `/readyz`. Throws where the port is taken. */
export function serveHttp(endpoint: { hostname: string; port: number }, answers: Answers): AsyncDisposable {
  return disposable(
    Bun.serve({ ...endpoint, idleTimeout: 10, fetch: (request) => answer(request, answers, false), ...bounds }),
  )
}

function disposable(server: { stop(isNow: boolean): Promise<void> }, path?: string): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      await server.stop(true)
      if (path !== undefined) rmSync(path, { force: true })
    },
  }
}

async function isListening(path: string): Promise<boolean> {
  try {
    const socket = await Bun.connect({ unix: path, socket: { data() {} } })
    socket.end()
    return true
  } catch {
    return false
  }
}

async function answer(request: Request, answers: Answers, isSocket: boolean): Promise<Response> {
  const { pathname } = new URL(request.url)
  if (isSocket && request.method === "POST" && pathname === "/accept-store") {
    await answers.acceptStore()
    return text("ok\n")
  }
  if (request.method !== "GET" && request.method !== "HEAD") return text("expected GET\n", 405)
  const status = answers.status()
  if (pathname === "/healthz") return text("ok\n")
  if (pathname === "/readyz") {
    const faults = status ? [...faultsOf(status), ...answers.missing()] : ["the agent is starting"]
    return text(faults.length === 0 ? "ok\n" : `${faults.join("\n")}\n`, faults.length === 0 ? 200 : 503)
  }
  const isKnown = pathname === "/metrics" || (pathname === "/status" && isSocket)
  if (!isKnown) return text("not found\n", 404)
  if (status === undefined) return text("the agent is starting\n", 503)
  if (pathname === "/status") return Response.json(status)
  return text(formatMetrics(status, answers.usage(), answers.version), 200, "text/plain; version=0.0.4; charset=utf-8")
}

/** What keeps the node from being ready: files of pools that cannot be written, and a store that cannot be used or trusted. */
export function faultsOf({ store, pools }: Status): string[] {
  return [store.fault, store.stopped, ...pools.map(({ fault }) => fault)].flatMap((fault) => fault ?? [])
}

function text(body: string, status = 200, type = "text/plain; charset=utf-8"): Response {
  return new Response(body, { status, headers: { "content-type": type } })
}

/** Asks the agent at a socket for its status, like `curl --unix-socket PATH http://agent/status`. Throws what keeps it from answering. */
export async function askAgent(socket: string): Promise<Status> {
  let response: Response
  try {
    response = await fetch("http://agent/status", { unix: socket, signal: AbortSignal.timeout(10_000) })
  } catch (cause) {
    throw new Error(`Cannot ask the agent at "${socket}": it does not run, or you are not root`, { cause })
  }
  if (!response.ok) throw new Error(`Cannot ask the agent at "${socket}": ${(await response.text()).trim()}`)
  return (await response.json()) as Status
}
