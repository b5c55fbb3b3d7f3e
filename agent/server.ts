import { lstatSync, mkdirSync, rmSync } from "node:fs"
import { dirname } from "node:path"
import { type Family, printFamilies, type Sample } from "../pkg/metrics/mod.ts"
import { parseIp } from "../pkg/types/mod.ts"
import { isListening, type Status } from "./status.ts"

export interface Endpoint {
  readonly hostname: string
  readonly port: number
}

const bounds = { maxRequestBodySize: 1024, development: false } as const

/**
 * Serves `GET /status` and the paths of `serveHttp` on a Unix socket with mode 0600. Replaces a socket on which no
 * process listens. Throws if another agent listens, or if the socket cannot be created.
 */
export async function serveSocket(path: string, status: () => Status): Promise<AsyncDisposable> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) {
    if (await isListening(path)) throw new Error(`Cannot run: another agent of this node listens at "${path}"`)
    rmSync(path)
  }
  const before = process.umask(0o177)
  try {
    const fetch = (request: Request) =>
      pathOf(request) === "/status" ? Response.json(status()) : answer(request, status())
    return disposable(Bun.serve({ unix: path, fetch, ...bounds }), path)
  } finally {
    process.umask(before)
  }
}

/** Serves `GET /metrics`, `/healthz` and `/readyz` on an address and port. Throws if the port is in use. */
export function serveHttp(endpoint: Endpoint, status: () => Status): AsyncDisposable {
  const fetch = (request: Request) =>
    isByAddress(request) ? answer(request, status()) : text("expected an IP address in the Host header\n", 403)
  return disposable(Bun.serve({ ...endpoint, idleTimeout: 10, fetch, ...bounds }))
}

/**
 * Reports whether the Host header is "localhost" or an address. Other names can come from DNS rebinding: a web page's
 * host name resolves to the agent's address, so that a browser on this node sends the page's requests to the agent.
 */
function isByAddress(request: Request): boolean {
  const host = request.headers.get("host") ?? ""
  const name = host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1")
  return name === "localhost" || parseIp(name) !== undefined
}

function disposable(server: { stop(isNow: boolean): Promise<void> }, path?: string): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      await server.stop(true)
      if (path !== undefined) rmSync(path, { force: true })
    },
  }
}

function pathOf({ url }: Request): string {
  return new URL(url).pathname
}

function answer(request: Request, status: Status): Response {
  if (request.method !== "GET" && request.method !== "HEAD") return text("expected GET\n", 405)
  const path = pathOf(request)
  if (path === "/healthz") return text("ok\n")
  if (path === "/metrics") return text(formatMetrics(status), 200, "text/plain; version=0.0.4; charset=utf-8")
  if (path !== "/readyz") return text("not found\n", 404)
  const { fault } = status.network
  return fault === undefined ? text("ok\n") : text(`${fault}\n`, 503)
}

function text(body: string, status = 200, type = "text/plain; charset=utf-8"): Response {
  return new Response(body, { status, headers: { "content-type": type } })
}

/** Formats the metrics of an agent in the text format of Prometheus. */
export function formatMetrics({ version, node, fault, nodes, network, routes }: Status): string {
  const ofNetwork = (value: number): Sample[] => [{ labels: { network: network.name }, value }]
  const { user, system } = process.cpuUsage()
  return printFamilies([
    gauge("cni_agent_info", "The version of the agent, and the name of its node.", [
      { labels: { version, node }, value: 1 },
    ]),
    gauge(
      "cni_agent_api_up",
      "Whether the agent follows the Nodes of the API server.",
      one(fault === undefined ? 1 : 0),
    ),
    gauge("cni_agent_nodes", "Known Nodes.", one(nodes ?? 0)),
    gauge("cni_agent_ranges", "Ranges of this node in the network's file.", ofNetwork(network.ranges.length)),
    gauge("cni_agent_strays", "Addresses of containers outside this node's ranges.", ofNetwork(network.strays.length)),
    ...(routes
      ? [
          gauge("cni_agent_routes_wanted", "Routes that this node needs.", one(routes.wanted)),
          gauge("cni_agent_route_faults", "Causes of missing routes.", one(routes.faults.length)),
        ]
      : []),
    gauge("process_resident_memory_bytes", "Resident memory of the agent in bytes.", one(process.memoryUsage.rss())),
    {
      name: "process_cpu_seconds_total",
      type: "counter",
      help: "Processor time of the agent in seconds.",
      samples: one((user + system) / 1e6),
    },
  ])
}

function gauge(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: "gauge", help, samples }
}

function one(value: number): Sample[] {
  return [{ labels: {}, value }]
}
