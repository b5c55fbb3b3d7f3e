import { AlreadyAttached, CniError, Code, messageOf, type Result } from "../types/mod.ts"
import { type Environment, execPlugin } from "./exec.ts"
import { type Builtins, builtinOf, PluginNotFound, requirePlugin, type Stamp, stampOf } from "./find.ts"
import { pluginError, readResult } from "./printed.ts"

/**
 * Calls another plugin. `stdin` is for a plugin that writes its delegate's configuration, such as flannel; `ifName` for
 * one that creates several interfaces, such as multus.
 */
export interface Delegate {
  /**
   * Runs ADD and returns the delegate's result. If it fails, the delegate's DEL has run, unless the error is
   * `AlreadyAttached`: that DEL would remove an attachment in use. Throws the delegate's error, or code 999 if the
   * plugin does not exist.
   */
  add(type: string, stdin?: Uint8Array, ifName?: string): Result
  check(type: string, stdin?: Uint8Array, ifName?: string): void
  del(type: string, stdin?: Uint8Array, ifName?: string): void
  /** Throws code 50 if the plugin does not exist, else the delegate's error. */
  status(type: string, stdin?: Uint8Array): void
  gc(type: string, stdin?: Uint8Array): void
}

/** The context that a delegate gets from its caller. */
export interface DelegateContext {
  /** Passed on unchanged except for `CNI_COMMAND`. */
  env: Environment
  stdin: Uint8Array
  /** The version of a result that does not name its version. */
  configVersion: string
  builtins: Builtins
  log: (text: string) => void
  /** The name of the calling plugin. */
  self?: string
}

/**
 * Returns the delegates of one call: found in its `CNI_PATH`, run with its environment and configuration. A plugin that
 * names itself, or a copy of itself, is refused with code 7: it would call itself without end.
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

/** The executable of a delegate. */
interface Found {
  readonly path: string
  readonly stamp: Stamp
}

/** Runs one plugin, in this process if this executable contains it. Either way its answer is parsed as text. */
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
