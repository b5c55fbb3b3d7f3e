import { encodeUtf8 } from "../pkg/engine/mod.ts"
import { createFile, findStat, isErrno, rename, tryUnlink } from "../pkg/libc/mod.ts"
import { isCniError } from "../pkg/types/mod.ts"
import type { Layout } from "./layout.ts"
import { readDocument, readManifest } from "./manifest.ts"

/**
 * Records the inodes and change times of the files. No program can set change times, so a file whose inode and change
 * time are unchanged has the recorded content and need not be read. If the record is missing, all files are read.
 */
export function noteSeen(layout: Layout): void {
  const files = Object.keys(readManifest(layout.manifest)?.files ?? {})
  const marks = files.flatMap((name) => {
    const mark = markOf(layout.file(name))
    return mark === undefined ? [] : [[name, mark]]
  })
  const draft = `${layout.seen}.draft`
  try {
    tryUnlink(draft)
    createFile(draft, encodeUtf8(JSON.stringify({ format: 1, ...Object.fromEntries(marks) })), 0o644)
    rename(draft, layout.seen)
  } catch (error) {
    if (!isErrno(error)) throw error
  }
}

/** Returns a function that reports whether the file of a name still has its recorded inode and change time. */
export function readSeen(layout: Layout): (name: string) => boolean {
  try {
    const noted = readDocument(layout.seen, "note") ?? {}
    return (name) => noted[name] !== undefined && noted[name] === markOf(layout.file(name))
  } catch (error) {
    if (!isErrno(error) && !isCniError(error)) throw error
    return () => false
  }
}

function markOf(file: string): string | undefined {
  const found = findStat(file, true)
  return found && `${found.device} ${found.inode} ${found.changed} ${found.size}`
}
