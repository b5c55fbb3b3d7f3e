import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import * as libc from "../../pkg/libc/mod.ts"

/** The directories of a store. */
export interface StorePlace {
  readonly files: Files
  /** The network's directory: `<dataDir>/<network>` */
  readonly directory: string
  readonly bootId: string
  log(line: string): void
}

/**
 * The system calls that the store is made with. Tests hand in their own, to end a process or to fill the disk at any of
 * them.
 */
export const kernelFiles = {
  createFile: libc.createFile,
  link: libc.link,
  makeDirectories: libc.makeDirectories,
  open: libc.open,
  read: libc.read,
  readDirectory: libc.readDirectory,
  fileSystemType: libc.fileSystemType,
  findFile: libc.findFile,
  setModified: libc.setModified,
  stat: libc.stat,
  sync: libc.sync,
  syncPath: libc.syncPath,
  truncate: libc.truncate,
  unlink: libc.unlink,
  writeAt: libc.writeAt,
  writeExisting: libc.writeExisting,
} as const

export type Files = typeof kernelFiles

/**
 * The text of a small file, cut at the length of `buffer`, which is more than a reservation, cursor or seal holds. Never
 * waits for a pipe's other end. Throws `SyscallError`.
 */
export function readSmall(files: Files, path: string, buffer = new Uint8Array(4096)): string {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.ReadOnly))
  return decodeUtf8(buffer.subarray(0, files.read(file.fd, buffer)))
}

/** Writes a small file in place: its old text is never missing, and nothing is flushed to the disk. */
export function writeSmall(files: Files, path: string, text: string): void {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.WriteOnly | libc.Open.Create, 0o600))
  const bytes = encodeUtf8(text)
  files.writeAt(file.fd, bytes, 0)
  files.truncate(file.fd, bytes.length)
}

/** Returns the result of `attempt`, or `undefined` when there is no such file. */
export function ifPresent<T>(attempt: () => T): T | undefined {
  return libc.unlessErrno(attempt, "ENOENT")
}
