import { encodeUtf8 } from "../pkg/engine/mod.ts"
import { createFile, rename, syncPath, tryUnlink } from "../pkg/libc/mod.ts"

/** Puts a text in the place of a file, whole or not at all: another file, fsync, rename, fsync of the directory. Throws `SyscallError`. */
export function replaceFile(path: string, text: string, mode = 0o600): void {
  const draft = `${path}.new`
  tryUnlink(draft) // of a process that was killed
  createFile(draft, encodeUtf8(text), mode)
  syncPath(draft)
  rename(draft, path)
  syncPath(path.slice(0, path.lastIndexOf("/")) || "/")
}
