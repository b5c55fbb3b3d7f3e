import { version } from "../../package.json"
import { type Builtins, delegateTo, type Environment, type Reply } from "../invoke/mod.ts"
import { NamespaceFile } from "../netns/mod.ts"
import { CniError, Code, newestVersion, supportedVersions } from "../types/mod.ts"
import { errorReply, perform } from "./answer.ts"
import { checkVersion, containerNamespace, knowsAttachments } from "./gates.ts"
import { isVerb, parseInput, parseNetwork, readInput, readVariables, verbs, versionOf } from "./input.ts"
import type { Plugin } from "./plugin.ts"
import { RESTORE_ARGUMENT, restoreReply } from "./restore.ts"

/** The input and output of a call: those of the process, or replacements. */
export interface CallIo {
  env: Environment
  /** Returns the arguments of the command line, without the program's name. */
  args?: () => readonly string[]
  /** Reads the configuration. Not called for VERSION, because some callers never write or close stdin. */
  stdin: () => Uint8Array
  log: (line: string) => void
  /** Writes the result of ADD. Without this function the result is in the reply. */
  write?: (text: string) => void
  /** Returns the plugins in this process, for calls with this namespace. */
  builtinsOn?: (namespace: NamespaceFile) => Builtins
  /** The container's namespace, if another plugin in this process makes the call, and has opened and compared it. */
  namespace?: NamespaceFile
}

/**
 * Serves one call of a plugin: takes environment and stdin, and returns the text for stdout and the exit code. Makes
 * all possible checks before it calls the plugin's verb. Never throws: each failure is an error object with exit code
 * 1.
 */
export function serve<C>(plugin: Plugin<C>, io: CallIo): Reply {
  const { env, log, write } = io
  const logAsPlugin = (line: string) => log(`${plugin.name}: ${line}`)
  let cniVersion: string = newestVersion // for error objects, unless the configuration has another version
  let opened: NamespaceFile | undefined
  try {
    const command = env.CNI_COMMAND ?? ""
    const supported = plugin.versions ?? supportedVersions
    if (command === "") {
      const isRestore = io.args?.()[0] === RESTORE_ARGUMENT
      return isRestore ? restoreReply(plugin, io.stdin, logAsPlugin) : introduce(plugin.name, supported, log)
    }
    const given = readVariables(command, env)
    if (command === "VERSION") return versionReply(supported)
    const stdin = readInput(io.stdin)
    const raw = parseInput(stdin)
    cniVersion = versionOf(raw)
    const network = parseNetwork(raw, command, logAsPlugin)
    if (!isVerb(command)) throw unknownCommand(command)
    checkVersion(command, network.cniVersion, supported)
    if (!io.namespace) opened = NamespaceFile.open(given.netns)
    const namespace = io.namespace ?? containerNamespace(command, opened as NamespaceFile, env.CNI_NETNS_OVERRIDE)
    const netns = namespace.path
    const isGone = netns !== given.netns
    if (isGone) logAsPlugin(`"${given.netns}" is now the host's namespace: the container's no longer exists`)
    const reply = { stdout: "", exitCode: 0 } // created now, because nothing may fail after the answer, not even for lack of memory
    if (command === "GC" && !knowsAttachments(network, logAsPlugin)) return reply
    const delegate = delegateTo({
      env: isGone ? { ...env, CNI_NETNS: netns } : env,
      stdin,
      configVersion: network.cniVersion,
      builtins: io.builtinsOn?.(namespace) ?? {},
      log,
      self: plugin.name,
    })
    const call = { verb: command, ...given, netns, namespace, network, raw, stdin, delegate, log: logAsPlugin }
    const keep = (text: string) => {
      reply.stdout = text
    }
    perform(plugin, call, write ?? keep)
    return reply
  } catch (error) {
    return errorReply(error, cniVersion)
  } finally {
    opened?.[Symbol.dispose]()
  }
}

/**
 * The version of the reference plugins that this suite replaces. Programs compare it: nerdctl reads "CNI firewall
 * plugin vX.Y.Z" and disables features below 1.7.1.
 */
export const REFERENCE_VERSION = "1.9.1"

/** Returns the output of a plugin that a person starts without `CNI_COMMAND`. Its first line is exactly upstream's. */
function introduce(name: string, supported: readonly string[], log: (line: string) => void): Reply {
  log(`CNI ${name} plugin v${REFERENCE_VERSION}`)
  log(`cni-plugins v${version}, in place of the reference plugins v${REFERENCE_VERSION}`)
  log(`CNI protocol versions supported: ${supported.join(", ")}`)
  return { stdout: "", exitCode: 0 }
}

/** Returns the answer to VERSION, on one line. */
function versionReply(supported: readonly string[]): Reply {
  return { stdout: `${JSON.stringify({ cniVersion: newestVersion, supportedVersions: supported })}\n`, exitCode: 0 }
}

function unknownCommand(command: string): CniError {
  const details = `expected one of ${verbs.join(", ")}`
  return new CniError(Code.InvalidEnvironment, `unknown CNI_COMMAND: ${command}`, { details })
}
