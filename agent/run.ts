import { readTextFile } from "../pkg/libc/mod.ts"
import { RouteSocket } from "../pkg/netlink/mod.ts"
import { messageOf } from "../pkg/types/mod.ts"
import { ApiClient, pause } from "./api/client.ts"
import type { Connection } from "./api/connection.ts"
import { type ApiObject, follow } from "./api/follow.ts"
import { Bell } from "./bell.ts"
import { factsOf, Nodes } from "./nodes.ts"
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
import { RouteTable } from "./routes/sync.ts"
import { type Endpoint, serveHttp, serveSocket } from "./server.ts"
import type { Status } from "./status.ts"

export interface AgentOptions {
  readonly node: string
  readonly connection: Connection
  readonly network: RangedNetwork
  /** The directory of host-local's stores. */
  readonly dataDir: string
  /** Whether the agent maintains routes to the ranges of other nodes. */
  readonly hasRoutes: boolean
  readonly http: Endpoint | undefined
  readonly socket: string
  readonly version: string
  /** Writes one line to the log. */
  readonly log: (level: "error" | "info", message: string) => void
}

/** Changes within this time are handled together, in one pass. */
const TOGETHER_MS = 100
/**
 * The pause between listings of the routing table, in multiples of their duration. Passes for changed Nodes continue.
 */
const REST = 20
/** The pause after a pass for changed Nodes, in multiples of its duration. */
const REST_OF_PASS = 3
/** The longest pause before a pass for changed Nodes, in milliseconds. */
const REST_MAX_MS = 400
/** The interval in milliseconds at which the network's file is checked without an event. */
const CHECK_MS = 60_000
/** Intervals between checks of routes. The kernel reports most removals, and listing 10,000 routes takes 0.5 s. */
const ROUTES_EVERY = 30
/** The interval in ms while containers have addresses of a former range, whose release causes no event. */
const FORMER_MS = 1_000
/** The maximum wait for this node's own Node before the agent lists all Nodes, in milliseconds. */
const OWN_MS = 2_000
/** The time between a plan and the collection of its garbage, in milliseconds. */
const COLLECT_MS = 2_000

/** Maintains ranges and routes until `signal` aborts, and then leaves them. Throws if the socket or port is in use. */
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
    options.log("info", `Removed "${name}": another network now has the node's range`)
  await agent.run(signal)
  options.log("info", "The agent stops; files and routes are kept")
}

class Agent {
  readonly #options: AgentOptions
  readonly #bell = new Bell()
  readonly #nodes: Nodes
  #apiFault: string | undefined
  /** Why the network's file has no ranges. */
  #rangeFault: string | undefined = "The ranges of this node are not yet known"
  #routesWanted = 0
  #routeFaults: readonly string[] = []
  readonly #table = new RouteTable()
  /** Whether the routing table must be listed, because the host's network has changed. */
  #mustLook = true
  /** Whether routes must be planned, because Nodes have changed. */
  #mustPlan = false
  #lookTimer: Timer | undefined
  #collectTimer: Timer | undefined
  #formerTimer: Timer | undefined

  constructor(options: AgentOptions) {
    this.#options = options
    this.#nodes = new Nodes(options.node, this.#plan, (fault) => this.#reportApi(fault))
  }

  readonly #plan = () => {
    this.#mustPlan = true
    this.#bell.ring()
  }

  readonly #look = () => {
    this.#mustLook = true
    this.#bell.ring()
  }

  async run(signal: AbortSignal): Promise<void> {
    using client = new ApiClient(this.#options.connection)
    using _ = { [Symbol.dispose]: () => this.#clearTimers() }
    await this.#askForOwn(client, signal)
    await Promise.all([
      follow(client, this.#nodes, signal),
      followKernel(this.#look, signal),
      this.#tick(signal),
      this.#keep(signal),
    ])
  }

  /**
   * Reads this node's own Node before the list, because a list of 5,000 Nodes takes a second, and containers wait for
   * the own Node's ranges. Ignores failures, because the list reports them too.
   */
  async #askForOwn(client: ApiClient, signal: AbortSignal): Promise<void> {
    try {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(OWN_MS)])
      const path = `${this.#nodes.path}/${encodeURIComponent(this.#nodes.own)}`
      const object: ApiObject = await (await client.get(path, {}, limited)).json()
      if (object.kind !== "Node" || object.metadata.name !== this.#nodes.own) return
      this.#nodes.early = factsOf(object, true)
      this.#keepRanges(this.#options.network)
    } catch {}
  }

  #clearTimers(): void {
    clearTimeout(this.#formerTimer)
    clearTimeout(this.#lookTimer)
    clearTimeout(this.#collectTimer)
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
      const restMs = Math.min(REST_OF_PASS * (performance.now() - began), REST_MAX_MS)
      await pause(Math.max(TOGETHER_MS, restMs), signal)
    }
  }

  /** Updates files, gateways and routes, in this order, so that a moved range has its file before packets arrive. */
  #pass(): void {
    const known = this.#nodes.known
    this.#keepRanges(this.#options.network)
    if (known === undefined || !this.#options.hasRoutes) return
    const isLook = this.#mustLook && this.#lookTimer === undefined
    if (!isLook && !this.#mustPlan) return
    if (isLook) this.#table.forget()
    ;[this.#mustPlan, this.#mustLook] = [false, this.#mustLook && !isLook]
    const [before, began] = [this.#routeFaults, performance.now()]
    try {
      using route = RouteSocket.open()
      const plan = planRoutes(this.#options.node, known)
      const { added, removed, faults } = this.#table.sync(route, plan)
      this.#routeFaults = faults
      this.#routesWanted = plan.wanted.size
      if (added + removed > 0) this.#options.log("info", `Changed the routes: ${added} added, ${removed} removed`)
    } catch (error) {
      this.#mustLook = true
      this.#routeFaults = [`Cannot update the routes to other nodes: ${messageOf(error)}`]
    }
    clearTimeout(this.#collectTimer)
    this.#collectTimer = setTimeout(() => Bun.gc(true), COLLECT_MS)
    if (isLook) this.#restFromLooks(REST * (performance.now() - began))
    const logged = new Set(before)
    for (const fault of this.#routeFaults) if (!logged.has(fault)) this.#options.log("error", fault)
  }

  #restFromLooks(ms: number): void {
    this.#lookTimer = setTimeout(() => {
      this.#lookTimer = undefined
      if (this.#mustLook) this.#bell.ring()
    }, ms)
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

  /** Writes this node's ranges to the file of a network. Returns the reason if the file has no ranges. */
  #writeOwn(network: RangedNetwork): string | undefined {
    const { log, node, dataDir } = this.#options
    const known = this.#nodes.known
    // Until the first list is complete, the file that an earlier agent wrote during this boot is valid.
    if (known === undefined && this.#nodes.early === undefined)
      return readRanges(network)?.ranges.length
        ? undefined
        : `Node "${node}" has no range yet: the API server has not sent its Nodes`
    const own = known === undefined ? this.#nodes.early : known.get(node)
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
      return `Node "${node}" has no range: its Node object belongs to another boot or machine (bootID ${other}); kubelet has not updated it yet`
    if (holder !== undefined)
      return `Network "${network.name}" gets no range: ${holder}, which would be assigned twice; delete these containers`
    return `Node "${node}" has no range: its Node object has no podCIDRs yet`
  }

  #reportApi(fault: string | undefined): void {
    const before = this.#apiFault
    this.#apiFault = fault
    if (fault !== undefined && fault !== before) this.#options.log("error", fault)
    if (fault === undefined && before !== undefined)
      this.#options.log("info", `Following the Nodes of ${this.#options.connection.server} again`)
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
