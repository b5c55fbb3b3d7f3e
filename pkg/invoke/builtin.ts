import { decodeLatin1 } from "../engine/mod.ts"
import { FileDescriptor, Open, readAt, statOpen } from "../libc/mod.ts"
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

/** Each plugin is a file of its own, so it is not the inode that tells: files of one build have its id, and are of one size. */
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

/** The size and the notes of an ELF file, elf(5): `readelf --notes` shows the build's id. Throws where there is none. */
function identityOf(path: string): string {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const headers = new Uint8Array(headersLength)
  const view = new DataView(headers.buffer, 0, readAt(file.fd, headers, 0))
  const [table, size, count] = [Number(view.getBigUint64(32, true)), view.getUint16(54, true), view.getUint16(56, true)]
  for (let at = table; at < table + count * size; at += size) {
    if (view.getUint32(at, true) !== PT_NOTE) continue
    const length = view.getBigUint64(at + 32, true) // as the file says, whatever the file is
    if (length > longestNote) break
    const note = new Uint8Array(Number(length))
    if (readAt(file.fd, note, Number(view.getBigUint64(at + 8, true))) !== note.length) break
    return `${statOpen(file.fd).size} ${decodeLatin1(note)}`
  }
  throw new Error(`No note in ${path}`)
}
