import { decodeLatin1 } from "../engine/mod.ts"
import { FileDescriptor, isErrno, isRegularFile, Open, readAt, SyscallError, stat } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Environment } from "./exec.ts"

/**
 * Finds the executable of a plugin: the first regular file of that name in the directories of `CNI_PATH` (separated by
 * ":"), links followed. A file that may not be executed is taken only when no other is found. Empty and relative
 * directories are skipped: they would be those of the working directory.
 *
 * Throws code 7 for a name that cannot be one, code 4 for an empty path, and code 999 when there is no such plugin. `key` is
 * where the configuration names it, for errors.
 */
export function requirePlugin(type: string, cniPath: string, key = "type"): string {
  if (type === "")
    throw new CniError(Code.InvalidNetworkConfig, "no plugin name provided", { details: `"${key}" is empty` })
  if (type.includes("/") || type.includes("\\") || type.includes("\0") || type === "." || type === "..") {
    throw new CniError(Code.InvalidNetworkConfig, `invalid plugin name: ${type}`, {
      details: `"${key}" is the name of a file, without a directory`,
    })
  }
  const directories = cniPath.split(":").filter((directory) => directory.startsWith("/"))
  if (directories.length === 0) {
    const skipped = cniPath !== "" ? `; not absolute: ${JSON.stringify(cniPath)}` : ""
    throw new CniError(Code.InvalidEnvironment, "no paths provided", {
      details: `CNI_PATH holds no absolute directory to search for plugin "${type}"${skipped}`,
    })
  }
  const hidden: SyscallError[] = []
  const found = firstFile(directories, type, true, hidden) ?? firstFile(directories, type, false, [])
  if (found !== undefined) return found
  const message = `failed to find plugin ${JSON.stringify(type)} in path [${directories.join(" ")}]`
  throw new PluginNotFound(message, key, hidden[0])
}

/** No directory of `CNI_PATH` has the plugin, or, where `cause` is defined, one may have it that cannot be looked into. */
export class PluginNotFound extends CniError {
  constructor(message: string, key: string, cause?: SyscallError) {
    const advice = cause?.message ?? "install the plugin there, or add its directory to CNI_PATH"
    super(Code.Internal, message, { details: `"${key}" names it: ${advice}`, ...(cause && { cause }) })
  }
}

/** `hidden` gets why a directory could not be looked into. */
function firstFile(
  directories: readonly string[],
  name: string,
  executable: boolean,
  hidden: SyscallError[],
): string | undefined {
  for (const directory of directories) {
    const path = `${directory}${directory.endsWith("/") ? "" : "/"}${name}`
    try {
      const found = stat(path)
      if (isRegularFile(found) && (!executable || (found.mode & 0o111) !== 0)) return path
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      if (!isErrno(error, "ENOENT", "ENOTDIR")) hidden.push(error) // the next directory may have it
    }
  }
  return undefined
}

/** What a plugin replies: the text for stdout, and the exit code. */
export interface Reply {
  stdout: string
  exitCode: number
  /** Its error is `AlreadyAttached`. */
  isAttached?: boolean
}

/** A plugin inside this executable, called with what a process of its own would get. */
export type Builtin = (call: { env: Environment; stdin: Uint8Array }) => Reply

/** The plugins in this process, by name. */
export type Builtins = Readonly<Record<string, Builtin>>

/**
 * The plugin inside this executable that the file at `path` is, if any: the file is of the same build as this executable, and
 * its name is the plugin's. A plugin is called by no other name than that of its file.
 */
export function builtinAt(path: string, builtins: Builtins): Builtin | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const builtin = Object.hasOwn(builtins, name) ? builtins[name] : undefined
  return builtin && isSameBuild(path) ? builtin : undefined
}

/** Each plugin is a file of its own, so it is not the inode that tells: all files of one build have its id, for each plugin and each way to start. */
function isSameBuild(path: string): boolean {
  try {
    return identityOf(path) === identityOf("/proc/self/exe")
  } catch {
    return false
  }
}

const headersLength = 4096
const longestNote = 4096
const PT_NOTE = 4

/** The notes of an ELF file, elf(5): `readelf --notes` shows the build's id. Throws when there are no notes. */
function identityOf(path: string): string {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const headers = new Uint8Array(headersLength)
  const view = new DataView(headers.buffer, 0, readAt(file.fd, headers, 0))
  const [table, size, count] = [Number(view.getBigUint64(32, true)), view.getUint16(54, true), view.getUint16(56, true)]
  for (let at = table; at < table + count * size; at += size) {
    if (view.getUint32(at, true) !== PT_NOTE) continue
    const length = view.getBigUint64(at + 32, true) // the file may be anything: not to be believed
    if (length > longestNote) break
    const note = new Uint8Array(Number(length))
    if (readAt(file.fd, note, Number(view.getBigUint64(at + 8, true))) !== note.length) break
    return decodeLatin1(note)
  }
  throw new Error(`No note in ${path}`)
}
