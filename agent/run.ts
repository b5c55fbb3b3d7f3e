import { FileDescriptor, makeDirectories, Open, randomHex, tryLock } from "../pkg/libc/mod.ts"
import { messageOf } from "../pkg/types/mod.ts"
import { type AgentConfig, readEndpoint } from "./config.ts"
import { hostClock } from "./engine/host-clock.ts"
import { openNodeFiles } from "./engine/node-files.ts"
import type { Clock, LogEvent, Surroundings } from "./engine/surroundings.ts"
import { formatEvent } from "./log.ts"
import { nodeName, openStore, ownerOfNode, podCidrsOf, readAgentConfig } from "./open.ts"
import { hostKernel } from "./routes/kernel.ts"
import type { Usage } from "./server/metrics.ts"
import { type Answers, serveHttp, serveSocket } from "./server/serve.ts"
import { StoreError } from "./store.ts"
import { keepRegistering } from "./stores/kubernetes/pools.ts"
import { KubernetesStore } from "./stores/kubernetes/store.ts"
import { podCidrWork, poolWork, together, type Work } from "./work.ts"

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
  let work: Work | undefined
  const answers: Answers = {
    status: () => work?.status(),
    usage: host.usage,
    version: host.version,
    missing: () => work?.missing() ?? [],
    async acceptStore() {
      if (!work) throw new Error("the agent is starting")
      work.acceptStore()
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
  const copied = podCidrsOf(config.store, store, owner.name)
  const doing = copied ? podCidrWork(surroundings, copied) : poolWork(surroundings, kernel)
  work = doing
  log({ level: "info", message: `The agent ${host.version} keeps the addresses of this node in ${store.name}` })
  await together(signal, (all) => {
    const isRegistering = !copied && store instanceof KubernetesStore
    return [doing.run(all), ...(isRegistering ? [keepRegistering(store, surroundings, all)] : [])]
  })
  log({ level: "info", message: "The agent ends; blocks, files and routes stay" })
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
