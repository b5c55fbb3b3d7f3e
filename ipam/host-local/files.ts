import * as libc from "../../pkg/libc/mod.ts"

/**
 * The system calls that the store is made with. Tests hand in their own, to end a process or to fill the disk at any of
 * them.
 */
export interface Files
  extends Pick<
    typeof libc,
    | "createFile"
    | "link"
    | "makeDirectories"
    | "open"
    | "read"
    | "readDirectory"
    | "readlink"
    | "setModified"
    | "stat"
    | "symlink"
    | "syncDirectory"
    | "truncate"
    | "unlink"
    | "writeAt"
    | "writeExisting"
  > {}

export const kernelFiles: Files = libc

/** More than any reservation, cursor or seal holds. */
const limit = 4096

/** The text of a small file; what is longer than 4 KiB is cut. Throws `SyscallError`. */
export function readSmall(files: Files, path: string): string {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.ReadOnly))
  const buffer = new Uint8Array(limit)
  return new TextDecoder().decode(buffer.subarray(0, files.read(file.fd, buffer)))
}

/** Writes a small file in place: its old text is never missing, and nothing is flushed to the disk. */
export function writeSmall(files: Files, path: string, text: string): void {
  using file = new libc.FileDescriptor(files.open(path, libc.Open.WriteOnly | libc.Open.Create, 0o600))
  const bytes = new TextEncoder().encode(text)
  files.writeAt(file.fd, bytes, 0)
  files.truncate(file.fd, bytes.length)
}

/** What `attempt` answers, or `undefined` when there is no such file. */
export function ifPresent<T>(attempt: () => T): T | undefined {
  try {
    return attempt()
  } catch (error) {
    if (libc.isErrno(error, "ENOENT")) return undefined
    throw error
  }
}
