import { programArguments, readlink } from "../../pkg/libc/mod.ts"
import { type Answered, type Call, definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Result } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { type DhcpConfig, dhcpFields, parseDhcpConfig } from "./config.ts"
import { hostEnvironment } from "./daemon/environment.ts"
import { runDaemon } from "./daemon/main.ts"
import { parseOptions } from "./daemon/options.ts"
import { Service } from "./daemon/service.ts"
import { callDaemon, DaemonError, NoDaemonError, readable, requireDaemon } from "./rpc/client.ts"
import type { GobObject } from "./rpc/gob.ts"
import { type CallArguments, decodeReply, type Method } from "./rpc/messages.ts"

export { dhcpKeyDocs } from "./config.ts"

export { Journal, keyOf, type LeaseRecord, namespaceLives, readBootId } from "./daemon/journal.ts"
export { DEFAULT_STATE } from "./daemon/options.ts"

/** The timeout for an answer without a DHCP server. */
const PATIENCE_MS = 30_000
/** The default timeout for acquiring a lease. It is longer than the timeouts of both suites' daemons. */
const LEASE_PATIENCE_MS = 300_000

/**
 * The dhcp plugin, which gets addresses from the DHCP servers of the container's network. It calls a daemon on the
 * host, which acquires and renews the leases.
 */
export const dhcp = definePlugin<DhcpConfig>({
  name: "dhcp",
  fields: dhcpFields,
  config: (_network, { verb, args, raw }) => parseDhcpConfig(raw, args, verb === "DEL" || verb === "GC"),
  add: addDhcp,
  check: checkDhcp,
  del: deleteDhcp,
  status: requireServing,
  gc: collectGarbage,
})

/** Runs this process as the plugin, or as the daemon if the argument is "daemon". */
export function runDhcp(): never {
  return programArguments()[0] === "daemon" ? runDaemon() : runPlugin(dhcp)
}

function addDhcp(call: Call, config: DhcpConfig): Answered {
  // The daemon times out earlier, after the configured time, and reports a more precise reason.
  const patienceMs = config.timeoutMs === undefined ? LEASE_PATIENCE_MS : config.timeoutMs + PATIENCE_MS
  const reply = ask(call, config, "Allocate", patienceMs)
  using undo = new Undo(call.log)
  undo.defer("lease addresses", () => void ask(call, config, "Release"))
  return call.answer(readReply(reply), undo)
}

function readReply(reply: GobObject): Result {
  try {
    return readable(() => decodeReply(reply))
  } catch (error) {
    throw failure("Allocate", error)
  }
}

function checkDhcp(call: Call, config: DhcpConfig): void {
  try {
    ask(call, config, "Check")
  } catch (error) {
    if (!isUnknownMethod(error)) throw error
    call.log(
      `CHECK did nothing: the daemon at "${config.daemonSocketPath}" is upstream's, and would return a new lease`,
    )
  }
}

function deleteDhcp(call: Call, config: DhcpConfig): void {
  withOrWithoutDaemon(call, config, "Release", (service) => service.release(argumentsOf(call)))
}

function collectGarbage(call: Call, config: DhcpConfig): void {
  try {
    withOrWithoutDaemon(call, config, "Collect", (service) => service.collect(argumentsOf(call)))
  } catch (error) {
    if (!isUnknownMethod(error)) throw error
    call.log(`GC released nothing: the daemon at "${config.daemonSocketPath}" is upstream's, which does not support GC`)
  }
}

/**
 * Calls the daemon to release leases. If no daemon runs, releases them in this process, with the daemon's journal,
 * because the end of a container must not wait for a daemon.
 */
function withOrWithoutDaemon(call: Call, config: DhcpConfig, method: Method, act: (service: Service) => void): void {
  try {
    callDaemon({ socketPath: config.daemonSocketPath, patienceMs: PATIENCE_MS }, method, argumentsOf(call))
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw failure(method, error)
    if (!actOnJournal(call.log, act)) call.log(`no leases to release: ${error.message}`)
  }
}

/** Calls `act` with the service on the daemon's journal. Returns false without a journal. Throws code 11 if locked. */
function actOnJournal(log: (line: string) => void, act: (service: Service) => void): boolean {
  const env = hostEnvironment(parseOptions([]), log)
  const { journal } = env
  if (!journal.exists) return false
  using lock = journal.tryLock()
  if (!lock) {
    throw new CniError(
      Code.TryAgainLater,
      `Cannot use the leases in "${journal.directory}": another daemon uses them`,
      {
        details: 'the daemon is starting, or listens on a socket other than "ipam.daemonSocketPath"',
      },
    )
  }
  const service = new Service(env)
  service.resume()
  act(service)
  return true
}

function requireServing(_call: Call, { daemonSocketPath }: DhcpConfig): void {
  try {
    requireDaemon({ socketPath: daemonSocketPath, patienceMs: PATIENCE_MS })
  } catch (error) {
    if (error instanceof NoDaemonError) throw noDaemon(Code.PluginNotAvailable, "lease addresses", error)
    throw failure("STATUS", error)
  }
}

function ask(call: Call, { daemonSocketPath }: DhcpConfig, method: Method, patienceMs = PATIENCE_MS): GobObject {
  try {
    return callDaemon({ socketPath: daemonSocketPath, patienceMs }, method, argumentsOf(call))
  } catch (error) {
    if (error instanceof NoDaemonError) throw noDaemon(Code.TryAgainLater, whats[method], error)
    throw failure(method, error)
  }
}

function argumentsOf({ containerId, netns, ifName, args, path, stdin }: Call): CallArguments {
  const isRelative = netns !== "" && !netns.startsWith("/")
  return {
    containerId,
    netns: isRelative ? `${readlink("/proc/self/cwd")}/${netns}` : netns,
    ifName,
    args,
    path,
    stdin,
  }
}

const whats: Readonly<Record<Method, string>> = {
  Allocate: "lease addresses",
  Release: "release the addresses",
  Check: "check the lease",
  Collect: "release stale addresses",
}

function noDaemon(code: number, what: string, error: NoDaemonError): CniError {
  return new CniError(code, `Cannot ${what}: ${error.message}`, {
    details: 'start it with "systemctl enable --now cni-dhcp.socket", or by hand with "/opt/cni/bin/dhcp daemon"',
  })
}

/** Converts an error of the daemon to the text of upstream's plugin, for which programs search. */
function failure(method: string, error: unknown): unknown {
  if (!(error instanceof DaemonError)) return error
  const [, text = error.message, details = ""] = /^(no more tries): (.*)/s.exec(error.message) ?? []
  return new CniError(Code.Internal, `error calling DHCP.${method}: ${text}`, { cause: error, details })
}

function isUnknownMethod(error: unknown): boolean {
  const { cause } = error instanceof CniError ? error : { cause: undefined }
  return cause instanceof DaemonError && cause.message.startsWith("rpc: can't find")
}

if (import.meta.main) runDhcp()
