import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import * as libc from "../../pkg/libc/mod.ts"

export interface StorePlace {
  readonly files: Files
  /** The network's directory: `<dataDir>/<network>`. */
  readonly directory: string
  readonly bootId: string
  log(line: string): void
}

/** The system calls of the store. Tests replace them to simulate a kill or a full disk at any call. */
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
 * Returns the text of a small file, truncated to the length of `buffer`; reservations, cursors and seals are shorter.
 * Never blocks on a pipe. Throws `SyscallError`.
 */
export function readSmall(files: Files, path: string, buffer = new Uint8Array(4096)): string {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.ReadOnly))
  return decodeUtf8(buffer.subarray(0, files.read(file.fd, buffer)))
}

/** Writes a small file in place, without sync, so that the file never lacks its text. */
export function writeSmall(files: Files, path: string, text: string): void {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.WriteOnly | libc.Open.Create, 0o600))
  const bytes = encodeUtf8(text)
  files.writeAt(file.fd, bytes, 0)
  files.truncate(file.fd, bytes.length)
}

/** Returns the result of `attempt`, or `undefined` if it fails because a file does not exist. */
export function ifPresent<T>(attempt: () => T): T | undefined {
  return libc.unlessErrno(attempt, "ENOENT")
}
