import { version } from "../../package.json"
import { type Builtins, delegateTo, type Environment, type Reply } from "../invoke/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { NamespaceFile } from "../netns/mod.ts"
import { CniError, Code, newestVersion, supportedVersions } from "../types/mod.ts"
import { errorReply, perform, sourceFrames } from "./answer.ts"
import { checkVersion, containerNamespace, knowsAttachments } from "./gates.ts"
import { isVerb, parseInput, parseNetwork, readInput, readVariables, verbs, versionOf } from "./input.ts"
import type { Plugin } from "./plugin.ts"

/** The process as a plugin sees it: everything that comes in, and where its log goes. */
export interface Surroundings {
  env: Environment
  /** Reads the configuration. Not called for VERSION: some callers never write or close stdin. */
  stdin: () => Uint8Array
  log: (line: string) => void
  /** Writes the result of ADD. Without it the result is in the reply. */
  write?: (text: string) => void
  /** Gets what ADD has changed, after its answer. */
  noteChanges?: (changes: readonly string[]) => void
  /** The namespace that the plugin works on which calls this one in its own process: compared and opened by that one. */
  namespace?: NamespaceFile
}

/** A call that has passed the protocol's checks, or the reply that refuses it. */
export interface Prepared {
  /** The version for error objects: the configuration's, or the newest when there is none to be read. */
  readonly cniVersion: string
  /** The network's name; undefined when the configuration could not be read so far. */
  readonly network?: string
  /** Runs the verb. `builtins` are the plugins in this process, for calls on this namespace. Synchronous, never throws. */
  run(builtins?: (namespace: NamespaceFile) => Builtins): Reply
}

/**
 * Serves one call of a plugin: environment and stdin in, stdout text and exit code out. Never throws: each failure is
 * an error object with exit code 1.
 */
export function serve<C>(plugin: Plugin<C>, call: Surroundings & { builtins?: Builtins }): Reply {
  return prepare(plugin, call).run(() => call.builtins ?? {})
}

/** The first half of `serve`: all that can be refused before the plugin is asked. Never throws. */
export function prepare<C>(
  plugin: Plugin<C>,
  { env, stdin, log, write, noteChanges, namespace: inherited }: Surroundings,
): Prepared {
  let cniVersion: string = newestVersion
  const answer = (reply: Reply): Prepared => ({ cniVersion, run: () => reply })
  let opened: NamespaceFile | undefined
  try {
    const command = env.CNI_COMMAND ?? ""
    const supported = plugin.versions ?? supportedVersions
    if (command === "") return answer(introduce(plugin.name, supported, log))
    const given = readVariables(command, env)
    if (command === "VERSION") return answer(versionReply(supported))
    const bytes = readInput(stdin)
    const raw = parseInput(bytes)
    cniVersion = versionOf(raw)
    const logAsPlugin = (line: string) => log(`${plugin.name}: ${line}`)
    const network = parseNetwork(raw, command, logAsPlugin)
    if (!isVerb(command)) throw unknownCommand(command)
    checkVersion(command, network.cniVersion, supported)
    const found = inherited ?? NamespaceFile.open(given.netns)
    if (!inherited) opened = found
    const namespace = inherited ?? containerNamespace(command, found, env.CNI_NETNS_OVERRIDE)
    const netns = namespace.path
    const isGone = netns !== given.netns
    if (isGone) logAsPlugin(`"${given.netns}" is the host's namespace by now: the container's has gone`)
    if (command === "GC" && !knowsAttachments(network, logAsPlugin)) return answer({ stdout: "", exitCode: 0 })
    const run = (builtinsOn: (namespace: NamespaceFile) => Builtins = () => ({})): Reply => {
      try {
        const { name: self } = plugin
        const callEnv = isGone ? { ...env, CNI_NETNS: netns } : env
        const configVersion = network.cniVersion
        const builtins = builtinsOn(namespace)
        const delegate = delegateTo({ env: callEnv, stdin: bytes, configVersion, builtins, log, self })
        const about = { verb: command, ...given, netns, namespace, network, raw, stdin: bytes }
        const call = { ...about, delegate, log: logAsPlugin }
        const reply = { stdout: "", exitCode: 0 } // made now: after the answer nothing may fail, not even for want of memory
        const keep = (text: string) => {
          reply.stdout = text
        }
        perform(plugin, call, write ?? keep, noteChanges)
        return reply
      } catch (error) {
        if (!(error instanceof CniError || isErrno(error)) && error instanceof Error)
          logAsPlugin([error.toString(), ...sourceFrames(error, 20)].join("\n    at ")) // a bug
        return errorReply(error, cniVersion)
      } finally {
        opened?.[Symbol.dispose]()
      }
    }
    return { cniVersion, network: network.name, run }
  } catch (error) {
    opened?.[Symbol.dispose]()
    return answer(errorReply(error, cniVersion))
  }
}

/**
 * The reference plugins that this suite does the work of. Programs compare it: nerdctl reads "CNI firewall plugin vX.Y.Z"
 * and leaves features out below 1.7.1.
 */
const REFERENCE_VERSION = "1.9.1"

/** What a human gets who runs a plugin without `CNI_COMMAND`; the first line is upstream's, alone on its line. */
function introduce(name: string, supported: readonly string[], log: (line: string) => void): Reply {
  log(`CNI ${name} plugin v${REFERENCE_VERSION}`)
  log(`cni-plugins v${version}, in place of the reference plugins v${REFERENCE_VERSION}`)
  log(`CNI protocol versions supported: ${supported.join(", ")}`)
  return { stdout: "", exitCode: 0 }
}

/** What VERSION is answered with, on one line. */
function versionReply(supported: readonly string[]): Reply {
  return { stdout: `${JSON.stringify({ cniVersion: newestVersion, supportedVersions: supported })}\n`, exitCode: 0 }
}

function unknownCommand(command: string): CniError {
  const details = `expected one of ${verbs.join(", ")}`
  return new CniError(Code.InvalidEnvironment, `unknown CNI_COMMAND: ${command}`, { details })
}
