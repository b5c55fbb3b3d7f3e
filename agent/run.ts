import { readTextFile } from "../pkg/libc/mod.ts"
import { RouteSocket } from "../pkg/netlink/mod.ts"
import { messageOf } from "../pkg/types/mod.ts"
import { ApiClient, pause } from "./api/client.ts"
import type { Connection } from "./api/connection.ts"
import { follow } from "./api/follow.ts"
import { Bell } from "./bell.ts"
import { Nodes } from "./nodes.ts"
import {
  otherHolder,
  type RangedNetwork,
  readRanges,
  removeOtherFiles,
  retire,
  straysOf,
  writeRanges,
} from "./ranges.ts"
import { followKernel } from "./routes/events.ts"
import { planRoutes } from "./routes/plan.ts"
import { syncRoutes } from "./routes/sync.ts"
import { type Endpoint, serveHttp, serveSocket } from "./server.ts"
import type { Status } from "./status.ts"

/** What an agent is started with. */
export interface AgentOptions {
  /** The name of its Node object. */
  readonly node: string
  readonly connection: Connection
  readonly network: RangedNetwork
  /** The directory of host-local's stores. */
  readonly dataDir: string
  /** Whether it keeps routes to the ranges of other nodes. */
  readonly hasRoutes: boolean
  readonly http: Endpoint | undefined
  readonly socket: string
  readonly version: string
  /** Writes one line to the log. */
  readonly log: (level: "error" | "info", message: string) => void
}

/** Changes that come within this time are done in one pass. */
const TOGETHER_MS = 100
/** A pass takes a twentieth of the time at most. */
const REST = 20
/** How often the network's file is looked at without an event. */
const CHECK_MS = 60_000
/** So many times less often the routes are: the kernel tells of nearly all that removes one, and reading 10,000 takes half a second. */
const ROUTES_EVERY = 30
/** While containers have addresses of a former range: no event tells of a reservation that is gone. */
const FORMER_MS = 1_000
/** So many routes leave garbage behind that a process at rest would keep. */
const MANY_ROUTES = 100

/**
 * Keeps ranges and routes of this node until `signal` is aborted; files and routes stay then. Throws where it cannot begin: the socket or the
 * port is another process's.
 */
export async function runAgent(options: AgentOptions, signal: AbortSignal): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const agent = new Agent(options)
  stack.use(await serveSocket(options.socket, () => agent.status()))
  if (options.http) stack.use(serveHttp(options.http, () => agent.status()))
  options.log(
    "info",
    `The agent ${options.version} follows the Nodes of ${options.connection.server} as node "${options.node}"`,
  )
  for (const name of removeOtherFiles(options.network))
    options.log("info", `Removed "${name}": another network has the node's range now`)
  await agent.run(signal)
  options.log("info", "The agent ends; files and routes stay")
}

class Agent {
  readonly #options: AgentOptions
  readonly #bell = new Bell()
  readonly #nodes: Nodes
  #apiFault: string | undefined
  /** Why the network's file has no ranges. */
  #rangeFault: string | undefined
  #routesWanted = 0
  #routeFaults: readonly string[] = []
  #mustLook = true
  #formerTimer: Timer | undefined

  constructor(options: AgentOptions) {
    this.#options = options
    this.#nodes = new Nodes(options.node, this.#look, (fault) => this.#reportApi(fault))
  }

  /** Nodes or the host's network have changed. */
  readonly #look = () => {
    this.#mustLook = true
    this.#bell.ring()
  }

  async run(signal: AbortSignal): Promise<void> {
    using client = new ApiClient(this.#options.connection)
    using _ = { [Symbol.dispose]: () => clearTimeout(this.#formerTimer) }
    await Promise.all([
      follow(client, this.#nodes, signal),
      followKernel(this.#look, signal),
      this.#tick(signal),
      this.#keep(signal),
    ])
  }

  async #tick(signal: AbortSignal): Promise<void> {
    for (let times = 0; !signal.aborted; times++, await pause(CHECK_MS, signal)) {
      if (times % ROUTES_EVERY === 0) this.#mustLook = true
      this.#bell.ring()
    }
  }

  async #keep(signal: AbortSignal): Promise<void> {
    while (await this.#bell.rung(signal)) {
      const began = performance.now()
      this.#pass()
      await pause(Math.max(TOGETHER_MS, REST * (performance.now() - began)), signal)
    }
  }

  /** One look at files, gateways and routes, in this order: a range that moves here has its file before packets come. */
  #pass(): void {
    const known = this.#nodes.known
    this.#keepRanges(this.#options.network)
    if (known === undefined || !this.#options.hasRoutes) return
    if (!this.#mustLook) return
    const before = this.#routeFaults
    try {
      using route = RouteSocket.open()
      const plan = planRoutes(this.#options.node, known)
      const { added, removed, faults } = syncRoutes(route, plan)
      this.#routeFaults = faults
      this.#routesWanted = plan.wanted.length
      this.#mustLook = false
      if (added + removed > MANY_ROUTES) Bun.gc(true)
      if (added + removed > 0) this.#options.log("info", `Changed the routes: ${added} added, ${removed} removed`)
    } catch (error) {
      this.#routeFaults = [`Cannot keep the routes to other nodes: ${messageOf(error)}`]
    }
    for (const fault of this.#routeFaults) if (!before.includes(fault)) this.#options.log("error", fault)
  }

  #keepRanges(network: RangedNetwork): void {
    const { log, node } = this.#options
    const before = this.#rangeFault
    let fault: string | undefined
    try {
      fault = this.#writeOwn(network)
      using route = RouteSocket.open()
      for (const what of retire(route, network)) log("info", `Removed the gateway of the former range ${what}`)
      if (readRanges(network)?.former.length && this.#formerTimer === undefined)
        this.#formerTimer = setTimeout(() => {
          this.#formerTimer = undefined
          this.#keepRanges(network)
        }, FORMER_MS)
    } catch (error) {
      fault = `Cannot keep "${network.file}": ${messageOf(error)}`
    }
    this.#rangeFault = fault
    if (fault !== undefined && fault !== before) log(this.#nodes.known ? "error" : "info", fault)
    if (fault === undefined && before !== undefined)
      log("info", `Network "${network.name}" has ranges of node "${node}"`)
  }

  /** Writes the file of a network as the Nodes say. Returns why it has no ranges. */
  #writeOwn(network: RangedNetwork): string | undefined {
    const { log, node, dataDir } = this.#options
    const known = this.#nodes.known
    // Before the first list the file of an agent of this boot holds.
    if (known === undefined)
      return readRanges(network)?.ranges.length
        ? undefined
        : `Node "${node}" has no range yet: the API server has not told its Nodes`
    const own = known.get(node)
    const other = own?.bootId !== undefined && own.bootId !== bootId() ? own.bootId : undefined
    const holder = own && otherHolder(dataDir, network, own.ranges)
    const ranges = own === undefined || (other ?? holder) !== undefined ? [] : own.ranges
    const replaced = writeRanges(network, node, ranges)
    if (replaced)
      log(
        "info",
        `Network "${network.name}" has ${ranges.join(" and ") || "no range"}${replaced.length > 0 ? ` in place of ${replaced.join(" and ")}` : ""}`,
      )
    if (ranges.length > 0) return undefined
    if (own === undefined) return `Node "${node}" has no range: the API server has no such Node`
    if (other !== undefined)
      return `Node "${node}" has no range: its Node object is that of another boot or machine (bootID ${other}), until kubelet of this one has written it`
    if (holder !== undefined)
      return `Network "${network.name}" gets no range: ${holder}, and would be handed out twice; delete these containers`
    return `Node "${node}" has no range: its Node object has no podCIDRs yet`
  }

  #reportApi(fault: string | undefined): void {
    const before = this.#apiFault
    this.#apiFault = fault
    if (fault !== undefined && fault !== before) this.#options.log("error", fault)
    if (fault === undefined && before !== undefined)
      this.#options.log("info", `The Nodes of ${this.#options.connection.server} are followed again`)
    this.#bell.ring()
  }

  status(): Status {
    const { version, node, connection, network, hasRoutes } = this.#options
    const { ranges, former } = readRanges(network) ?? { ranges: [], former: [] }
    const { name, file } = network
    const fault = this.#rangeFault
    return {
      version,
      node,
      server: connection.server,
      ...(this.#apiFault !== undefined && { fault: this.#apiFault }),
      ...(this.#nodes.known && { nodes: this.#nodes.known.size }),
      network: { name, file, ranges, former, ...(fault !== undefined && { fault }), strays: straysOf(network) },
      ...(hasRoutes && { routes: { wanted: this.#routesWanted, faults: this.#routeFaults } }),
    }
  }
}

function bootId(): string {
  return readTextFile("/proc/sys/kernel/random/boot_id").trim()
}
