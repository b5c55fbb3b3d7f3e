import { stat } from "../libc/mod.ts"
import type { Environment } from "./exec.ts"

/** What a plugin answers: the text for stdout, and the exit code. */
export interface Reply {
  stdout: string
  exitCode: number
}

/** A plugin inside this executable, called with what a process of its own would get. */
export type Builtin = (call: { env: Environment; stdin: Uint8Array }) => Reply

/** The plugins in this process, by name. */
export type Builtins = Readonly<Record<string, Builtin>>

/**
 * The plugin inside this executable that running `path` would start, if any: the file is this very executable (the same
 * inode, by whatever link), and its name is the name of the plugin, as it is when called by that path.
 */
export function builtinAt(path: string, builtins: Builtins): Builtin | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const builtin = Object.hasOwn(builtins, name) ? builtins[name] : undefined
  return builtin && isOwnExecutable(path) ? builtin : undefined
}

function isOwnExecutable(path: string): boolean {
  try {
    const file = stat(path)
    const own = stat("/proc/self/exe")
    return file.inode === own.inode && file.device === own.device
  } catch {
    return false
  }
}
