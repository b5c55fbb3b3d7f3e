import { decodeUtf8, engine } from "../engine/mod.ts"
import { FileDescriptor, Open } from "./descriptor.ts"
import { check, errnoNumber } from "./errno.ts"
import { randomHex } from "./process.ts"
import { findStat, isDirectory, isRegularFile, stat } from "./stat.ts"

const EEXIST = errnoNumber("EEXIST")
const ENOENT = errnoNumber("ENOENT")

export function removeDirectory(path: string): void {
  check("rmdir", { path }, () => engine.rmdir(path))
}

/** Removes an empty directory. Returns true if it no longer exists. Never throws: exceptions are expensive. */
export function tryRemoveDirectory(path: string): boolean {
  const answer = engine.rmdir(path)
  return answer === 0 || answer === -ENOENT
}

/** Creates a directory. Throws `EEXIST` if the path exists. */
export function makeDirectory(path: string, mode = 0o755): void {
  check("mkdir", { path }, () => engine.mkdirat(path, mode))
}

/** Creates a directory and its missing parents, like `mkdir -p`. Throws `SyscallError`. */
export function makeDirectories(path: string, mode = 0o755): void {
  const found = findStat(path)
  if (found && isDirectory(found)) return
  for (let at = path.indexOf("/", 1); ; at = path.indexOf("/", at + 1)) {
    const part = at === -1 ? path : path.slice(0, at)
    // Most parents exist. This case must not throw an exception, which would cost more than the call.
    const result = engine.mkdirat(part, mode)
    if (result !== -EEXIST || (at === -1 && !isDirectory(stat(path)))) {
      check("mkdir", { path: part }, () => result)
    }
    if (at === -1) return
  }
}

/** Creates a directory named `prefix` and random digits, mode 0700, like `mktemp -d`. Throws `SyscallError`. */
export function makeTemporaryDirectory(prefix: string): string {
  const path = `${prefix}${randomHex(4)}`
  makeDirectory(path, 0o700)
  return path
}

/** Returns the names in a directory except "." and "..", in no particular order. Throws `SyscallError`. */
export function readDirectory(path: string): string[] {
  const names: string[] = []
  eachEntry(path, (name) => names.push(name))
  return names
}

/** A name in a directory, with its type. A symbolic link is neither a file nor a directory. */
export interface DirectoryEntry {
  readonly name: string
  readonly isDirectory: boolean
  readonly isFile: boolean
}

/** `DT_*`, <dirent.h> */
const EntryType = { Unknown: 0, Directory: 4, File: 8 } as const

/** Returns the entries of a directory, in no particular order. Throws `SyscallError`. */
export function readEntries(path: string): DirectoryEntry[] {
  const entries: DirectoryEntry[] = []
  eachEntry(path, (name, type) => {
    const found = type === EntryType.Unknown ? findStat(`${path}/${name}`, true) : undefined // some file systems do not report the type
    const isDirectoryEntry = found ? isDirectory(found) : type === EntryType.Directory
    entries.push({
      name,
      isDirectory: isDirectoryEntry,
      isFile: found ? isRegularFile(found) : type === EntryType.File,
    })
  })
  return entries
}

function eachEntry(path: string, see: (name: string, type: number) => void): void {
  using directory = FileDescriptor.open(path, Open.ReadOnly)
  // The buffer is small, because most directories and the memory of a plugin call are small.
  const buffer = new Uint8Array(8192)
  const view = new DataView(buffer.buffer)
  for (;;) {
    const fd = directory.fd
    const length = check("getdents64", { path }, () => engine.getdents64(fd, buffer))
    if (length === 0) return
    for (let at = 0; at < length; at += view.getUint16(at + 16, true)) {
      const end = buffer.indexOf(0, at + 19) // struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name
      const name = decodeUtf8(buffer.subarray(at + 19, end))
      if (name !== "." && name !== "..") see(name, buffer[at + 18] ?? 0)
    }
  }
}
