import { AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, engine } from "../engine/mod.ts"
import type { Fd } from "./descriptor.ts"
import { check, find } from "./errno.ts"

const STATX_BASIC_STATS = 0x7ff
const STATX_ATTR_IMMUTABLE = 0x10
const STATX_ATTR_APPEND = 0x20
const STATX_ATTR_MOUNT_ROOT = 0x2000
/** <linux/statfs.h> */
const ST_RDONLY = 1

/**
 * The attributes of a file from statx(2). Each is decoded when it is read, because 64-bit arithmetic is slow, and
 * host-local reads the attributes of 30,000 files to rebuild its index.
 */
export class Stat {
  /** struct statx as words of 32 bits, low words first; <linux/stat.h>. Its layout is the same on all architectures. */
  readonly #words: Uint32Array

  constructor(words: Uint32Array) {
    this.#words = words
  }

  /** "major:minor" of the file system's device. */
  get device(): string {
    return `${this.#word(34)}:${this.#word(35)}`
  }

  get inode(): bigint {
    return this.#long(8)
  }

  /** Type and permission bits, as in <linux/stat.h>. */
  get mode(): number {
    return this.#word(7) & 0xffff
  }

  /** The number of hard links to the file. */
  get links(): number {
    return this.#word(4)
  }

  /** The ID of the user that owns the file. */
  get user(): number {
    return this.#word(5)
  }

  get group(): number {
    return this.#word(6)
  }

  /** Whether the file is immutable or append-only, "i" or "a" in `lsattr`: it cannot be renamed or removed. */
  get isFrozen(): boolean {
    return (this.#word(2) & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) !== 0
  }

  /** Whether something is mounted here, a file system or a file; always false before Linux 5.8. */
  get isMountPoint(): boolean {
    return (this.#word(2) & STATX_ATTR_MOUNT_ROOT) !== 0
  }

  /** The size in bytes. */
  get size(): number {
    return this.#word(11) * 2 ** 32 + this.#word(10)
  }

  /** The time of the last modification of the content, in nanoseconds since 1970. */
  get modified(): bigint {
    return this.#time(28)
  }

  /** The time of the last change of the file or its inode, in nanoseconds since 1970. No process can set it. */
  get changed(): bigint {
    return this.#time(24)
  }

  #word(at: number): number {
    return this.#words[at] ?? 0
  }

  #long(at: number): bigint {
    return (BigInt(this.#word(at + 1)) << 32n) | BigInt(this.#word(at))
  }

  #time(at: number): bigint {
    return BigInt.asIntN(64, this.#long(at)) * 1_000_000_000n + BigInt(this.#word(at + 2))
  }
}

/** Returns the attributes of a file, like stat(2), or with `noFollow` like lstat(2). Throws `SyscallError`. */
export function stat(path: string, noFollow = false): Stat {
  return look(path, noFollow, check) as Stat
}

function look(path: string, noFollow: boolean, by: typeof check | typeof find): Stat | undefined {
  const words = new Uint32Array(64)
  const flags = noFollow ? AT_SYMLINK_NOFOLLOW : 0
  const statx = () => engine.statx(AT_FDCWD, path, flags, STATX_BASIC_STATS, words)
  return by("stat", { path }, statx) === undefined ? undefined : new Stat(words)
}

/** Returns the attributes of an open file, like fstat(2). Throws `SyscallError`. */
export function statOpen(fd: Fd): Stat {
  const words = new Uint32Array(64)
  check("fstat", { fd }, () => engine.statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, words))
  return new Stat(words)
}

/** Like `stat`, but returns undefined if the path does not exist. Throws `SyscallError`. */
export function findStat(path: string, noFollow = false): Stat | undefined {
  return look(path, noFollow, find)
}

/** Reports whether stat(2) can read a file's attributes. Returns false for a dangling link. Never throws. */
export function exists(path: string): boolean {
  return engine.statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, new Uint32Array(64)) >= 0
}

/** The size of a file system, and the space that is free for users other than root. */
export interface FileSystem {
  readonly isReadOnly: boolean
  /** The size in bytes. */
  readonly size: number
  readonly free: number
  /** The maximum number of files; 0 on a file system without such a maximum. */
  readonly files: number
  readonly freeFiles: number
}

/** Returns size and free space of a path's file system, like `df` and `df -i`. Throws `SyscallError`. */
export function statFileSystem(path: string): FileSystem {
  const words = new BigUint64Array(15) // struct statfs: type, bsize, blocks, bfree, bavail, files, ffree, fsid, namelen, frsize, flags
  check("statfs", { path }, () => engine.statfs(path, words))
  const [, , blocks, , available, files, freeFiles, , , size, flags] = Array.from(words, Number) as number[]
  const [unit = 0, bits = 0] = [size, flags]
  return {
    isReadOnly: (bits & ST_RDONLY) !== 0,
    size: (blocks ?? 0) * unit,
    free: (available ?? 0) * unit,
    files: files ?? 0,
    freeFiles: freeFiles ?? 0,
  }
}

/** Returns the type of a path's file system, like `stat -f`; <linux/magic.h>. Throws `SyscallError`. */
export function fileSystemType(path: string): number {
  const words = new Uint32Array(30) // struct statfs of 64-bit Linux: the first field is the type
  check("statfs", { path }, () => engine.statfs(path, words))
  return words[0] ?? 0
}

const FileType = { Mask: 0o170000, Directory: 0o040000, Regular: 0o100000, Symlink: 0o120000 } as const

export function isRegularFile(found: Stat): boolean {
  return (found.mode & FileType.Mask) === FileType.Regular
}

export function isDirectory(found: Stat): boolean {
  return (found.mode & FileType.Mask) === FileType.Directory
}

export function isSymlink(found: Stat): boolean {
  return (found.mode & FileType.Mask) === FileType.Symlink
}
