import { decodeLatin1 } from "../engine/mod.ts"
import { FileDescriptor, Open, readAt, stat } from "../libc/mod.ts"
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
 * The plugin inside this executable that running `path` would start, if any: the file is of the same build as this
 * executable, and its name is the name of the plugin, as it is when called by that path.
 */
export function builtinAt(path: string, builtins: Builtins): Builtin | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const builtin = Object.hasOwn(builtins, name) ? builtins[name] : undefined
  return builtin && isSameBuild(path) ? builtin : undefined
}

/** The ELF header, the program headers and the note with the build's id: `readelf --notes`. */
const identityLength = 4096

/** Each plugin is a file of its own, so it is not the inode that tells: files of one build begin alike and are of one size. */
function isSameBuild(path: string): boolean {
  try {
    return identityOf(path) === identityOf("/proc/self/exe")
  } catch {
    return false
  }
}

function identityOf(path: string): string {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const start = new Uint8Array(identityLength)
  return `${stat(`/proc/self/fd/${file.fd}`).size} ${decodeLatin1(start.subarray(0, readAt(file.fd, start, 0)))}`
}
