import { decodeUtf8, encodeUtf8, engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open, read, writeAll } from "./descriptor.ts"
import { type CallObject, check, errnoNumber, find, SyscallError, unlessErrno } from "./errno.ts"
import { randomHex } from "./process.ts"
import { isDirectory, isRegularFile, statOpen } from "./stat.ts"

const UTIME_OMIT = 0x3ffffffen

/** Returns a file's content. Throws `SyscallError`: `EFBIG` beyond `limit` bytes, `EINVAL` for FIFO, socket, device. */
export function readFile(path: string, limit = 16 << 20): Uint8Array {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  return readAll(file, path, limit)
}

/** Like `readFile`, but returns undefined if the file does not exist. Throws `SyscallError`. */
export function findFile(path: string, limit = 16 << 20): Uint8Array | undefined {
  using file = FileDescriptor.find(path)
  return file && readAll(file, path, limit)
}

function readAll({ fd }: FileDescriptor, path: string, limit: number): Uint8Array {
  const found = statOpen(fd)
  if (!isRegularFile(found) && !isDirectory(found))
    throw new SyscallError("read", errnoNumber("EINVAL"), `${JSON.stringify(path)}, which is not a regular file`)
  const bytes = readToEnd(fd, limit, { path }, found.size)
  if (bytes.length > limit) throw new SyscallError("read", errnoNumber("EFBIG"), JSON.stringify(path))
  return bytes
}

/** Returns the content of a file as UTF-8 text. Throws `SyscallError`. */
export function readTextFile(path: string): string {
  return decodeUtf8(readFile(path))
}

/**
 * Returns the UTF-8 text of a kernel file, such as one in /proc, which the kernel returns whole to a single read(2).
 * Returns undefined if the file has `limit` bytes or more. Throws `SyscallError`.
 */
export function readTextAtOnce(path: string, limit: number): string | undefined {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const bytes = new Uint8Array(limit)
  const length = read(file.fd, bytes)
  return length < limit ? decodeUtf8(bytes.subarray(0, length)) : undefined
}

/**
 * Reads a descriptor to its end. If `size` is not 0, does not search for the end after `size` bytes; the kernel's own
 * files have size 0. If there are more than `limit` bytes, reads and returns `limit` + 1 bytes.
 */
export function readToEnd(fd: Fd, limit: number, object: CallObject = { fd }, size = 0): Uint8Array {
  let buffer = new Uint8Array(4096)
  for (let length = 0; ; ) {
    if (length === buffer.length) {
      const larger = new Uint8Array(buffer.length * 4)
      larger.set(buffer)
      buffer = larger
    }
    const into = buffer.subarray(length, limit + 1)
    const got = check("read", object, () => engine.read(fd, into))
    length += got
    if (got === 0 || length > limit || (size > 0 && length >= size)) return buffer.subarray(0, length)
  }
}

/** Writes text into an existing file, like `echo -n text > path`. Throws `SyscallError`. */
export function writeExisting(path: string, text: string): void {
  using file = FileDescriptor.open(path, Open.WriteOnly | Open.Truncate)
  writeAll(file.fd, encodeUtf8(text))
}

/** Creates a file, without fsync. Throws `EEXIST` if the path exists. Leaves no file when it throws. */
export function createFile(path: string, bytes: Uint8Array, mode = 0o600): void {
  using file = FileDescriptor.open(path, Open.WriteOnly | Open.Create | Open.Exclusive, mode)
  try {
    writeAll(file.fd, bytes)
  } catch (error) {
    unlessErrno(() => tryUnlink(path))
    throw error
  }
}

/** Creates a file or replaces its content, like `echo -n text > path`. Throws `SyscallError`. */
export function writeFile(path: string, content: string | Uint8Array, mode = 0o644): void {
  using file = FileDescriptor.open(path, Open.WriteOnly | Open.Create | Open.Truncate, mode)
  writeAll(file.fd, bytesOf(content))
}

/**
 * Replaces a file atomically: writes a temporary file in the same directory and renames it. Readers see either the old
 * or the new content. Throws `SyscallError`, and then leaves no temporary file.
 */
export function replaceFile(path: string, content: string | Uint8Array, mode = 0o644): void {
  const draft = `${path}.${randomHex(4)}.tmp`
  createFile(draft, bytesOf(content), mode)
  try {
    rename(draft, path)
  } catch (error) {
    tryUnlink(draft)
    throw error
  }
}

function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === "string" ? encodeUtf8(content) : content
}

/** `O_TMPFILE` on x86-64 and on arm64, <fcntl.h>. Each architecture refuses the value of the other with `EINVAL`. */
const unnamed = [0o20200000, 0o20040000]

/**
 * Creates a file without a name (O_TMPFILE) in a directory. The file is deleted when the function returns or the
 * process is killed. Returns false if the file system does not support such files. Throws `SyscallError` like
 * `createFile`.
 */
export function tryUnnamedFile(directory: string): boolean {
  for (const flags of unnamed) {
    const make = () => FileDescriptor.open(directory, Open.WriteOnly | flags, 0o600)
    using made = unlessErrno(make, "EINVAL", "EISDIR", "EOPNOTSUPP")
    if (made) return true
  }
  return false
}

/** Writes the data of an open file to disk, like fsync(2). Throws `SyscallError`. */
export function sync(fd: Fd): void {
  check("fsync", { fd }, () => engine.fsync(fd))
}

/** Writes the data of a file, or the entries of a directory, to disk, like `sync path`. Throws `SyscallError`. */
export function syncPath(path: string): void {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  sync(file.fd)
}

export function readAt(fd: Fd, into: Uint8Array, offset: number): number {
  return check("pread", { fd }, () => engine.pread(fd, into, offset))
}

export function writeAt(fd: Fd, bytes: Uint8Array, offset: number): void {
  for (let done = 0; done < bytes.length; ) {
    const rest = bytes.subarray(done)
    const at = offset + done
    done += check("pwrite", { fd }, () => engine.pwrite(fd, rest, at))
  }
}

export function truncate(fd: Fd, length: number): void {
  check("ftruncate", { fd }, () => engine.ftruncate(fd, length))
}

/** Renames a file, and replaces an existing file with the new name. Throws `SyscallError`. */
export function rename(from: string, to: string): void {
  check("rename", { path: from, to }, () => engine.rename(from, to))
}

/** Creates a hard link. Throws `EEXIST` if `to` exists. */
export function link(from: string, to: string): void {
  check("link", { path: from, to }, () => engine.linkat(from, to))
}

/** Returns the target of a symbolic link. Throws `SyscallError`. */
export function readlink(path: string): string {
  const buffer = new Uint8Array(4096)
  const length = check("readlink", { path }, () => engine.readlinkat(path, buffer))
  return decodeUtf8(buffer.subarray(0, length))
}

/** `O_PATH` of <asm-generic/fcntl.h>: opens a descriptor that identifies a path but cannot be read. */
const O_PATH = 0o10000000

/** Returns the path with all symbolic links resolved, like `realpath`. Throws `SyscallError`. */
export function realPath(path: string): string {
  using file = FileDescriptor.open(path, O_PATH)
  return readlink(`/proc/self/fd/${file.fd}`)
}

/** Removes a name from its directory, like unlink(2). Throws `ENOENT` if it does not exist. */
export function unlink(path: string): void {
  check("unlink", { path }, () => engine.unlink(path))
}

/** Removes a name from its directory. Returns false if it did not exist. Throws `SyscallError`. */
export function tryUnlink(path: string): boolean {
  return find("unlink", { path }, () => engine.unlink(path)) !== undefined
}

/** Sets the permission bits of a file, like `chmod`. Throws `SyscallError`. */
export function changeMode(path: string, mode: number): void {
  check("chmod", { path }, () => engine.fchmodat(path, mode))
}

/** The maximum length of an extended attribute's value, <linux/limits.h>. */
const XATTR_SIZE_MAX = 65536

/**
 * Returns an extended attribute of a file, or of a symbolic link itself, like `getfattr -h -n NAME`. Returns
 * `undefined` if the attribute does not exist or the file system does not support attributes. Throws `SyscallError`.
 */
export function findAttribute(path: string, name: string): Uint8Array | undefined {
  const into = new Uint8Array(XATTR_SIZE_MAX)
  const get = () => check("lgetxattr", { path }, () => engine.lgetxattr(path, name, into))
  const length = unlessErrno(get, "ENODATA", "EOPNOTSUPP", "ENOSYS")
  return length === undefined ? undefined : into.slice(0, length)
}

/** Sets an extended attribute of an open file, like `setfattr -n NAME -v VALUE`. Throws `SyscallError`. */
export function setAttribute(fd: Fd, name: string, value: Uint8Array): void {
  check("fsetxattr", { fd }, () => engine.fsetxattr(fd, name, value, 0))
}

/** Returns the SHA-256 of a file in hexadecimal, like `sha256sum`. Throws `SyscallError`. */
export function sha256OfFile(path: string): string {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const digest = new Uint8Array(32)
  check("read", { path }, () => engine.sha256(file.fd, digest))
  let text = ""
  for (const byte of digest) text += byte.toString(16).padStart(2, "0")
  return text
}

/** Sets the modification time of a file. `modified` is in nanoseconds since 1970. Throws `SyscallError`. */
export function setModified(path: string, modified: bigint): void {
  const seconds = modified / 1_000_000_000n
  const times = new BigInt64Array([0n, UTIME_OMIT, seconds, modified % 1_000_000_000n]) // struct timespec[2]: access, modification
  check("utimensat", { path }, () => engine.utimensat(path, times, 0))
}
