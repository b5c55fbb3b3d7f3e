import { decodeLatin1 } from "../engine/mod.ts"
import { FileDescriptor, isErrno, isRegularFile, Open, readAt, SyscallError, stat } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Environment } from "./exec.ts"

/**
 * Returns the executable of a plugin: the first regular file of that name in the directories of `CNI_PATH` (separated
 * by ":"). Follows links. Uses a file that is not executable only if there is no other. Skips empty and relative
 * directories, which would depend on the working directory.
 *
 * Throws code 7 for an invalid name, code 4 for an empty path, and code 999 if the plugin does not exist. `key` is the
 * configuration key of the name, for errors.
 */
export function requirePlugin(type: string, cniPath: string, key = "type"): string {
  validatePluginName(type, key)
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

/** Checks a `type` before use: a file name without a directory, or code 7. `key` is its configuration key. */
export function validatePluginName(type: string, key = "type"): void {
  if (type === "")
    throw new CniError(Code.InvalidNetworkConfig, "no plugin name provided", { details: `"${key}" is empty` })
  if (type.includes("/") || type.includes("\\") || type.includes("\0") || type === "." || type === "..") {
    throw new CniError(Code.InvalidNetworkConfig, `invalid plugin name: ${type}`, {
      details: `"${key}" must be the name of a file, without a directory`,
    })
  }
}

/** Returns a plugin's path. No other function makes a path from a `type`. Throws code 7 for an invalid name. */
export function pluginPath(directory: string, type: string): string {
  validatePluginName(type)
  return `${directory}${directory.endsWith("/") ? "" : "/"}${type}`
}

/** The error for a plugin in no directory of `CNI_PATH`. It has a `cause` if a directory could not be searched. */
export class PluginNotFound extends CniError {
  constructor(message: string, key: string, cause?: SyscallError) {
    const advice = cause?.message ?? "install the plugin there, or add its directory to CNI_PATH"
    super(Code.Internal, message, { details: `"${key}" names it: ${advice}`, ...(cause && { cause }) })
  }
}

/** Returns the first file of this name. `hidden` receives the errors of directories that could not be searched. */
function firstFile(
  directories: readonly string[],
  name: string,
  executable: boolean,
  hidden: SyscallError[],
): string | undefined {
  for (const directory of directories) {
    const path = pluginPath(directory, name)
    try {
      const found = stat(path)
      if (isRegularFile(found) && (!executable || (found.mode & 0o111) !== 0)) return path
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      if (!isErrno(error, "ENOENT", "ENOTDIR")) hidden.push(error) // the next directory may have the file
    }
  }
  return undefined
}

/** A plugin's reply: the text for stdout, and the exit code. */
export interface Reply {
  stdout: string
  exitCode: number
  /** Whether the error is `AlreadyAttached`. */
  isAttached?: boolean
}

/** A plugin inside this executable, called with the input of a process. */
export type Builtin = (call: { env: Environment; stdin: Uint8Array }) => Reply

/** The plugins in this process, by name. */
export type Builtins = Readonly<Record<string, Builtin>>

/**
 * Returns the plugin inside this executable that can run in place of a file with this stamp, because it is the same
 * plugin of the same build. The file may have any name.
 */
export function builtinOf({ plugin, build }: Stamp, builtins: Builtins): Builtin | undefined {
  const builtin = plugin !== undefined && Object.hasOwn(builtins, plugin) ? builtins[plugin] : undefined
  return builtin && build !== undefined && build === stampOf("/proc/self/exe").build ? builtin : undefined
}

/** Returns the name of this suite's plugin in an executable with any file name; undefined for any other file. */
export function findPluginName(path: string): string | undefined {
  return stampOf(path).plugin
}

/** The notes that a build writes into executables: the build's ID, the same in all its files, and the plugin's name. */
export interface Stamp {
  readonly build?: string | undefined
  readonly plugin?: string | undefined
}

const headersLength = 4096
const longestNotes = 4096
const PT_NOTE = 4
const NT_GNU_BUILD_ID = 3

/** Reads the notes of an ELF file, elf(5), like `readelf --notes`. Returns an empty stamp for any other file. */
export function stampOf(path: string): Stamp {
  try {
    using file = FileDescriptor.open(path, Open.ReadOnly)
    const headers = new Uint8Array(headersLength)
    const view = new DataView(headers.buffer, 0, readAt(file.fd, headers, 0))
    const [table, size, count] = [
      Number(view.getBigUint64(32, true)),
      view.getUint16(54, true),
      view.getUint16(56, true),
    ]
    const stamp: Stamp = {}
    for (let at = table; at < table + count * size; at += size) {
      if (view.getUint32(at, true) !== PT_NOTE) continue
      const length = view.getBigUint64(at + 32, true) // the file may be anything: its numbers are not trusted
      if (length > longestNotes) break
      const notes = new Uint8Array(Number(length))
      if (readAt(file.fd, notes, Number(view.getBigUint64(at + 8, true))) !== notes.length) break
      Object.assign(stamp, stampIn(notes))
    }
    return stamp
  } catch {} // not an executable, or not readable
  return {}
}

/**
 * Returns the stamp in a file's notes. `scripts/workshop.ts` writes two notes: the build's ID with owner "GNU", and the
 * plugin's name with owner "CNI". Both are padded with zeros.
 */
function stampIn(notes: Uint8Array): Stamp {
  const view = new DataView(notes.buffer)
  const text = decodeLatin1(notes)
  const stamp: { build?: string; plugin?: string } = {}
  for (let at = 0; at < notes.length; ) {
    const length = view.getUint32(at + 4, true)
    const name = at + NOTE_HEADER
    const content = name + padded(view.getUint32(at, true))
    const type = view.getUint32(at + 8, true)
    if (type === NT_GNU_BUILD_ID && text.startsWith("GNU\0", name)) stamp.build = text.slice(content, content + length)
    else if (text.startsWith("CNI\0", name)) stamp.plugin = text.slice(content, text.indexOf("\0", content))
    at = content + padded(length)
  }
  return stamp
}

/** The size of a note's header: three words for the owner's length, the content's length, and the type. */
const NOTE_HEADER = 12

const padded = (length: number) => (length + 3) & ~3
