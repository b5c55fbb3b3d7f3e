import { encodeUtf8 } from "../pkg/engine/mod.ts"
import { createFile, findStat, isErrno, rename, tryUnlink } from "../pkg/libc/mod.ts"
import { isCniError } from "../pkg/types/mod.ts"
import type { Layout } from "./layout.ts"
import { readDocument, readManifest } from "./manifest.ts"

/**
 * Records the inodes of the files and their change times, which no program can set. While both are unchanged, the
 * content of a file is known without reading it. The record is a hint and may be missing.
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

/** Returns a function that tests whether a name's file still has its recorded, unchanged inode. */
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
