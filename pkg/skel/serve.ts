import { version } from "../../package.json"
import { type Builtins, delegateTo, type Environment, type Reply } from "../invoke/mod.ts"
import { NamespaceFile } from "../netns/mod.ts"
import { CniError, Code, newestVersion, supportedVersions } from "../types/mod.ts"
import { errorReply, perform } from "./answer.ts"
import { checkVersion, containerNamespace, knowsAttachments } from "./gates.ts"
import { isVerb, parseInput, parseNetwork, readInput, readVariables, verbs, versionOf } from "./input.ts"
import type { Plugin } from "./plugin.ts"
import { RESTORE_ARGUMENT, restoreReply } from "./restore.ts"

/** The input and output of a call: the process, or its stand-in. */
export interface CallIo {
  env: Environment
  /** The command line, without the program's name. */
  args?: () => readonly string[]
  /** Reads the configuration. Not called for VERSION: some callers never write or close stdin. */
  stdin: () => Uint8Array
  log: (line: string) => void
  /** Writes the result of ADD. Without it the result is in the reply. */
  write?: (text: string) => void
  /** The plugins in this process, for calls on this namespace. */
  builtinsOn?: (namespace: NamespaceFile) => Builtins
  /** The namespace of the plugin that calls this one in its own process: compared and opened by that one. */
  namespace?: NamespaceFile
}

/**
 * Serves one call of a plugin: environment and stdin in, stdout text and exit code out. All that can be refused is
 * refused before the plugin's verb is called. Never throws: each failure is an error object with exit code 1.
 */
export function serve<C>(plugin: Plugin<C>, io: CallIo): Reply {
  const { env, log, write } = io
  const logAsPlugin = (line: string) => log(`${plugin.name}: ${line}`)
  let cniVersion: string = newestVersion // of error objects, unless the configuration has another
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
    const reply = { stdout: "", exitCode: 0 } // made now: after the answer nothing may fail, not even for lack of memory
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

/** The output of a plugin that a person runs without `CNI_COMMAND`; the first line is upstream's, alone on its line. */
function introduce(name: string, supported: readonly string[], log: (line: string) => void): Reply {
  log(`CNI ${name} plugin v${REFERENCE_VERSION}`)
  log(`cni-plugins v${version}, in place of the reference plugins v${REFERENCE_VERSION}`)
  log(`CNI protocol versions supported: ${supported.join(", ")}`)
  return { stdout: "", exitCode: 0 }
}

/** The answer to VERSION, on one line. */
function versionReply(supported: readonly string[]): Reply {
  return { stdout: `${JSON.stringify({ cniVersion: newestVersion, supportedVersions: supported })}\n`, exitCode: 0 }
}

function unknownCommand(command: string): CniError {
  const details = `expected one of ${verbs.join(", ")}`
  return new CniError(Code.InvalidEnvironment, `unknown CNI_COMMAND: ${command}`, { details })
}
