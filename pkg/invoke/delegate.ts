import { AlreadyAttached, CniError, Code, messageOf, type Result } from "../types/mod.ts"
import { type Environment, execPlugin } from "./exec.ts"
import { type Builtins, builtinOf, PluginNotFound, requirePlugin, type Stamp, stampOf } from "./find.ts"
import { pluginError, readResult } from "./printed.ts"

/**
 * Functions that call another plugin. `stdin` is for a plugin that writes its delegate's configuration, such as
 * flannel. `ifName` is for a plugin that creates several interfaces, such as multus.
 */
export interface Delegate {
  /**
   * Runs ADD and returns the delegate's result. After a failed ADD, runs the delegate's DEL, unless the error is
   * `AlreadyAttached`, because DEL would then remove an attachment in use. Throws the delegate's error, or code 999 if
   * the plugin does not exist.
   */
  add(type: string, stdin?: Uint8Array, ifName?: string): Result
  check(type: string, stdin?: Uint8Array, ifName?: string): void
  del(type: string, stdin?: Uint8Array, ifName?: string): void
  /** Runs STATUS. Throws code 50 if the plugin does not exist, otherwise the delegate's error. */
  status(type: string, stdin?: Uint8Array): void
  gc(type: string, stdin?: Uint8Array): void
}

/** The caller's context that its delegates get. */
export interface DelegateContext {
  /** The environment, passed on unchanged except for `CNI_COMMAND`. */
  env: Environment
  stdin: Uint8Array
  /** The version of a result that does not name a version. */
  configVersion: string
  builtins: Builtins
  log: (text: string) => void
  /** The name of the calling plugin. */
  self?: string
}

/**
 * Returns functions that call other plugins for one call. They find a plugin in the call's `CNI_PATH`, and run it with
 * the call's environment and configuration. They refuse with code 7 a plugin that calls itself or a copy of itself,
 * because that would never end.
 */
export function delegateTo(context: DelegateContext): Delegate {
  const run = (command: string, found: Found, stdin = context.stdin, ifName?: string) => {
    const named = ifName === undefined ? context : { ...context, env: { ...context.env, CNI_IFNAME: ifName } }
    return runFound(found, command, named, stdin)
  }
  const find = (type: string, stdin?: Uint8Array): Found => {
    const key = stdin === undefined ? "ipam.type" : "delegate.type"
    const itself = () => {
      const message = `Cannot delegate to "${type}": a plugin cannot delegate to itself`
      return new CniError(Code.InvalidNetworkConfig, message, { details: `"${key}" names it` })
    }
    if (stdin === undefined && type === context.self) throw itself()
    const path = requirePlugin(type, context.env.CNI_PATH ?? "", key)
    const stamp = stampOf(path)
    if (stdin === undefined && context.self !== undefined && stamp.plugin === context.self) throw itself()
    return { path, stamp }
  }
  return {
    add(type, stdin, ifName) {
      const found = find(type, stdin)
      try {
        return readResult(run("ADD", found, stdin, ifName), context.configVersion)
      } catch (error) {
        if (error instanceof AlreadyAttached) throw error
        cleanUp(() => run("DEL", found, stdin, ifName), `Cannot undo ADD of plugin "${type}"`, context.log)
        throw error
      }
    },
    check: (type, stdin, ifName) => void run("CHECK", find(type, stdin), stdin, ifName),
    del: (type, stdin, ifName) => void run("DEL", find(type, stdin), stdin, ifName),
    gc: (type, stdin) => void run("GC", find(type, stdin), stdin),
    status: (type, stdin) =>
      void run(
        "STATUS",
        findForStatus(() => find(type, stdin)),
        stdin,
      ),
  }
}

interface Found {
  readonly path: string
  readonly stamp: Stamp
}

/** Runs a plugin, in this process if this executable contains the plugin. In both cases parses the plugin's output. */
function runFound(
  { path, stamp }: Found,
  command: string,
  context: DelegateContext,
  stdin: Uint8Array,
): string | Uint8Array {
  const env = { ...context.env, CNI_COMMAND: command }
  const builtin = builtinOf(stamp, context.builtins)
  if (!builtin) return execPlugin({ path, env, stdin, log: context.log })
  const { stdout, exitCode, isAttached } = builtin({ env, stdin })
  if (exitCode === 0) return stdout
  const error = pluginError({ stdout, stderr: "", cause: `exit status ${exitCode}` })
  throw isAttached ? new AlreadyAttached(error.code, error.message, { details: error.details ?? "" }) : error
}

function cleanUp(undo: () => void, what: string, log: (text: string) => void): void {
  try {
    undo()
  } catch (error) {
    log(`${what}: ${messageOf(error)}`)
  }
}

function findForStatus(find: () => Found): Found {
  try {
    return find()
  } catch (error) {
    if (!(error instanceof PluginNotFound)) throw error
    throw new CniError(Code.PluginNotAvailable, error.message, { details: error.details ?? "" })
  }
}
