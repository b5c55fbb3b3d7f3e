import {
  changeMode,
  createFile,
  type Fd,
  FileDescriptor,
  findAttribute,
  findStat,
  isDirectory,
  isErrno,
  isRegularFile,
  isSymlink,
  link,
  Open,
  read,
  readDirectory,
  readlink,
  removeDirectory,
  setAttribute,
  sha256OfFile,
  stat,
  sync,
  tryUnlink,
  writeAll,
} from "../pkg/libc/mod.ts"

/**
 * Returns the content of a path: "sha256:…" for a file, "link:TARGET" for a symbolic link, "other" for a directory or a
 * device. Returns undefined if the path does not exist.
 */
export function contentOf(path: string): string | undefined {
  const found = findStat(path, true)
  if (!found) return undefined
  if (isSymlink(found)) return `link:${readlink(path)}`
  return isRegularFile(found) ? `sha256:${sha256OfFile(path)}` : "other"
}

/** The maximum size of one write of a copy, in bytes, so that an executable needs only one write. */
const PIECE = 16 << 20

/**
 * Copies a file and syncs it to disk, like `install -m MODE SOURCE TARGET && sync TARGET`. Uses a single write(2), so
 * that the kernel caches the file in large folios, with which a program starts in a sixth less time than with pages of
 * 4 KiB. `prepare` may set attributes before the sync. Throws `EEXIST` if the target exists.
 */
export function copyWhole(source: string, target: string, mode: number, prepare?: (file: Fd) => void): void {
  using from = FileDescriptor.open(source, Open.ReadOnly)
  createFile(target, new Uint8Array())
  using to = FileDescriptor.open(target, Open.WriteOnly)
  const piece = new Uint8Array(Math.min(PIECE, stat(source).size + 1))
  for (let length = 1; length > 0; ) {
    length = 0
    for (let got = 1; got > 0 && length < piece.length; length += got) got = read(from.fd, piece.subarray(length))
    writeAll(to.fd, piece.subarray(0, length))
  }
  changeMode(target, mode) // open(2) would apply the umask to the mode
  prepare?.(to.fd)
  sync(to.fd)
}

/** Replaces the target with a copy of a file that all users may execute. */
export function copyExecutable(source: string, target: string): void {
  tryUnlink(target)
  copyWhole(source, target, 0o755)
}

const LABEL = "security.selinux"
const CAPABILITIES = "security.capability"

/**
 * Sets the attributes of a new file: the SELinux label of the file that it replaces, and the capability bits (`setcap`)
 * of its source or an earlier version. A file with a new name gets the label that the kernel's policy defines for the
 * directory.
 */
export function carryAttributes(path: string, file: Fd, from: Attributes): void {
  const label = from.label === undefined ? undefined : findAttribute(from.label, LABEL)
  // Skips an equal label, because a container may not be allowed to set labels.
  if (label && label.join() !== findAttribute(path, LABEL)?.join()) setAttribute(file, LABEL, label)
  const bits = from.capabilities.map((path) => findAttribute(path, CAPABILITIES)).find((found) => found)
  if (bits) setAttribute(file, CAPABILITIES, bits)
}

/**
 * The files from which a new file gets its attributes. Of `capabilities`, the first file with capability bits is used.
 */
interface Attributes {
  readonly label: string | undefined
  readonly capabilities: readonly string[]
}

/** Creates a hard link to a file, or a copy if the file system does not support hard links. */
export function keep(file: string, kept: string): void {
  try {
    link(file, kept)
  } catch (error) {
    if (!isErrno(error, "EPERM", "EOPNOTSUPP", "EMLINK")) throw error
    copyWhole(file, kept, stat(file).mode & 0o7777)
  }
}

/** Removes a file, or a directory with its content, if it exists, like `rm -rf`. Does not follow links. */
export function removeTree(path: string): void {
  const found = findStat(path, true)
  if (!found) return
  if (!isDirectory(found)) return void tryUnlink(path)
  for (const name of readDirectory(path)) removeTree(`${path}/${name}`)
  removeDirectory(path)
}
