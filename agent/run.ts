import { bootMs, FileDescriptor, makeDirectories, Open, randomHex, readTextFile, tryLock } from "../pkg/libc/mod.ts"
import { type AgentConfig, readEndpoint } from "./config.ts"
import { Engine } from "./engine/engine.ts"
import { openNodeFiles } from "./engine/node-files.ts"
import { followPodCidrs, type PodCidrs } from "./engine/pod-cidrs.ts"
import type { Clock, LogEvent, NodeFiles, Surroundings } from "./engine/surroundings.ts"
import { formatEvent } from "./log.ts"
import { nodeName, openStore, ownerOfNode, podCidrsOf, readAgentConfig } from "./open.ts"
import type { Kind } from "./records.ts"
import { RouteKeeper, type RouteKernel, type RouteSurroundings } from "./routes/keeper.ts"
import { hostKernel } from "./routes/kernel.ts"
import type { Usage } from "./server/metrics.ts"
import { type Answers, serveHttp, serveSocket } from "./server/serve.ts"
import type { Status } from "./status.ts"
import { StoreError } from "./store.ts"
import { keepRegistering } from "./stores/kubernetes/pools.ts"
import { KubernetesStore } from "./stores/kubernetes/store.ts"

/** What the process gives the agent. */
export interface AgentProcess {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes to the log. */
  write(text: string): void
  /** Aborted by SIGTERM. */
  readonly end: AbortSignal
  /** Has an event "reload" for each SIGHUP. */
  readonly reload: EventTarget
  readonly version: string
  usage(): Usage
}

/**
 * Runs the agent of this node until `end` is aborted; blocks stay claimed, and files and routes stay. After "reload" it begins anew with the
 * configuration as it is then; one that cannot be used is logged, and the one before stays. Throws where it cannot begin.
 */
export async function runAgent(configFile: string, host: AgentProcess): Promise<void> {
  for (let config = readAgentConfig(configFile); !host.end.aborted; ) {
    const reloaded = new AbortController()
    let next = config
    const log = logOf(config, host)
    const reload = () => {
      try {
        next = readAgentConfig(configFile)
        log({ level: "info", message: "Reading the configuration anew" })
        reloaded.abort()
      } catch (error) {
        log({ level: "error", message: `${messageOf(error)}. The agent goes on as it is configured` })
      }
    }
    host.reload.addEventListener("reload", reload)
    try {
      await runWith(config, host, AbortSignal.any([host.end, reloaded.signal]), log)
    } finally {
      host.reload.removeEventListener("reload", reload)
    }
    config = next
  }
}

type Log = (event: LogEvent) => void

function logOf(config: AgentConfig, { env, write }: AgentProcess): Log {
  const node = nodeName(config, env)
  const isJournal = env.JOURNAL_STREAM !== undefined
  return (event) => write(formatEvent({ format: config.log, node, isJournal }, event, new Date()))
}

async function runWith(config: AgentConfig, host: AgentProcess, signal: AbortSignal, log: Log): Promise<void> {
  using _lock = lockNode(config.poolDir)
  await using stack = new AsyncDisposableStack()
  let running: Running | undefined
  let copyFault: string | undefined
  const answers: Answers = {
    status: () => running && statusOf(running, copyFault),
    usage: host.usage,
    version: host.version,
    missing: () => (running ? missingFiles(running) : []),
    async acceptStore() {
      if (!running) throw new Error("the agent is starting")
      running.engine.acceptStore()
    },
  }
  stack.use(await serveSocket(config.socket, answers))
  const endpoint = readEndpoint(config.http)
  if (endpoint) stack.use(serveHttp(endpoint, answers))
  const store = stack.use(await openStore(config.store, host.env))
  const clock = hostClock()
  const owner = await untilKnown(clock, log, signal, () => ownerOfNode(config, store, host.env))
  if (owner === undefined) return
  const surroundings: Surroundings = {
    store,
    clock,
    node: openNodeFiles({
      poolDir: config.poolDir,
      dataDir: config.dataDir,
      owner,
      log: (message) => log({ level: "warning", message }),
    }),
    randomHex,
    log,
  }
  const kernel = hostKernel(config.nodeAddresses, clock)
  const engine = new Engine(surroundings, { addresses: kernel.addresses(), onChange: () => routes.wake() })
  const routes: RouteKeeper = new RouteKeeper(routesOf(engine, surroundings, kernel))
  const copied = podCidrsOf(config.store, store, owner.name)
  running = { engine, routes, node: surroundings.node, ...(copied && { copied }) }
  log({ level: "info", message: `The agent ${host.version} keeps the addresses of this node in ${store.name}` })
  await together(signal, (all) => {
    const told = (fault: string | undefined) => {
      copyFault = fault
    }
    if (copied) return [followPodCidrs(surroundings, copied, all, told)]
    const registering = store instanceof KubernetesStore ? [keepRegistering(store, surroundings, all)] : []
    return [engine.run(all), routes.run(all), ...registering]
  })
  log({ level: "info", message: "The agent ends; blocks, files and routes stay" })
}

/** The parts of an agent that knows who it is. With `copied` the engine stands still. */
interface Running {
  readonly engine: Engine
  readonly routes: RouteKeeper
  readonly node: NodeFiles
  readonly copied?: PodCidrs
}

function statusOf({ engine, routes }: Running, copyFault: string | undefined): Status {
  const status = { ...engine.status(), routes: routes.status }
  return copyFault === undefined ? status : { ...status, store: { ...status.store, fault: copyFault } }
}

/** The pools of the store whose file is not there, which host-local would say, too. */
function missingFiles({ engine, node, copied }: Running): string[] {
  if (copied) return node.readPool(copied.network) ? [] : [`pool "${copied.network}" has no file yet`]
  if (!engine.view.isComplete) return ["the records of the store are not known yet"]
  const pools = [...engine.view.records("registry").values()].flatMap(({ value }) => Object.keys(value.pools))
  return pools.filter((pool) => node.readPool(pool) === undefined).map((pool) => `pool "${pool}" has no file yet`)
}

/** Waits for all parts. When one fails the others are ended, too, and its error is thrown. */
async function together(signal: AbortSignal, begin: (signal: AbortSignal) => Promise<void>[]): Promise<void> {
  const failed = new AbortController()
  const parts = begin(AbortSignal.any([signal, failed.signal]))
  const outcomes = await Promise.allSettled(
    parts.map(async (part) => {
      try {
        await part
      } catch (error) {
        failed.abort()
        throw error
      }
    }),
  )
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason
}

/** What the routes are made from: the engine's view of the records. */
function routesOf(engine: Engine, { node, clock, log }: Surroundings, kernel: RouteKernel): RouteSurroundings {
  const valuesOf = <K extends Kind>(kind: K) => [...engine.view.records(kind).values()].map(({ value }) => value)
  return {
    node: node.owner.name,
    clock,
    kernel,
    records() {
      if (!engine.view.isComplete) return undefined
      const [registry = { pools: {} }] = valuesOf("registry")
      return { registry, nodes: valuesOf("node"), blocks: valuesOf("block") }
    },
    publish: (addresses) => engine.setAddresses(addresses),
    log,
  }
}

/** One agent works for a node: two would each give back what the other has claimed. Throws where there is one. */
function lockNode(poolDir: string): Disposable {
  makeDirectories(poolDir)
  const path = `${poolDir}/.agent.lock`
  const file = FileDescriptor.open(path, Open.ReadWrite | Open.Create, 0o600)
  if (tryLock(file.fd)) return file
  file[Symbol.dispose]()
  throw new Error(`Cannot run the agent: another one of this node has the lock "${path}"`)
}

/** Asks again until the store answers; undefined when `signal` is aborted first. */
async function untilKnown<T>(
  clock: Clock,
  log: Log,
  signal: AbortSignal,
  ask: () => Promise<T>,
): Promise<T | undefined> {
  for (let pauseMs = 1_000; !signal.aborted; pauseMs = Math.min(2 * pauseMs, 30_000)) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      log({ level: "warning", message: `Cannot find out who this node is: ${error.message}` })
      await clock.sleep(pauseMs, signal)
    }
  }
  return undefined
}

function hostClock(): Clock {
  return {
    bootMs,
    bootId: readTextFile("/proc/sys/kernel/random/boot_id").trim(),
    async sleep(ms, signal) {
      if (signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = () => resolve()
      const timer = setTimeout(end, ms)
      signal.addEventListener("abort", end)
      await promise
      signal.removeEventListener("abort", end)
      clearTimeout(timer)
    },
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
