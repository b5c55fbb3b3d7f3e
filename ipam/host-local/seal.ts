import { isErrno } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, readSmall, writeSmall } from "./files.ts"

/**
 * The time of modification of a store's directory, and of the index in it, that means "the index knows about everything":
 * the first second of 1990, which no clock shows. Whoever makes or removes a file without us, be it the Go plugin or
 * `rm`, makes the kernel set it to the present.
 */
const sealed = 631_152_000_000_000_000n

/**
 * Whether nothing has changed in the store, nor in the index, since `seal`. Times of change, which nobody can set, tell
 * a directory restored by a backup; the boot tells what survived a power cut only in part.
 */
export function isSealed(files: Files, directory: string, bootId: string): boolean {
  const expected = ifPresent(() => sealText(files, directory, bootId))
  return expected !== undefined && expected === ifPresent(() => readSmall(files, sealPath(directory)))
}

/** Declares the index complete. Throws `SyscallError` when it cannot; the store is then not sealed. */
export function seal(files: Files, directory: string, bootId: string): void {
  files.setModified(`${directory}/.index`, sealed)
  files.setModified(directory, sealed)
  const text = sealText(files, directory, bootId)
  if (text !== undefined) writeSmall(files, sealPath(directory), text)
}

/** Declares the index unreliable; makes its directory if need be. Throws `SyscallError`. */
export function breakSeal(files: Files, directory: string): void {
  try {
    writeSmall(files, sealPath(directory), "broken\n")
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
    files.makeDirectories(`${directory}/.index`, 0o700)
    writeSmall(files, sealPath(directory), "broken\n")
  }
}

/** What the seal says if it is good; `undefined` when one of the directories was modified. */
function sealText(files: Files, directory: string, bootId: string): string | undefined {
  const store = files.stat(directory)
  const index = files.stat(`${directory}/.index`)
  if (store.modified !== sealed || index.modified !== sealed) return undefined
  return `1 ${bootId} ${store.device} ${store.inode} ${store.changed} ${index.changed}\n`
}

function sealPath(directory: string): string {
  return `${directory}/.index/seal`
}
