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

/** What a name has: "sha256:…" for a file, "link:TARGET" for a symbolic link, "other" for a directory or a device; undefined when nothing has the name. */
export function contentOf(path: string): string | undefined {
  const found = findStat(path, true)
  if (!found) return undefined
  if (isSymlink(found)) return `link:${readlink(path)}`
  return isRegularFile(found) ? `sha256:${sha256OfFile(path)}` : "other"
}

/** A piece of a copy. Executables fit into one. */
const PIECE = 16 << 20

/**
 * A complete copy on disk, like `install -m MODE SOURCE TARGET && sync TARGET`. A file goes out in one write(2): the kernel then
 * caches it in large folios, and a start that maps them takes a sixth less time than with a file that was written in pages of 4 KiB.
 * `prepare` may give it attributes before it is put on the disk. Throws `EEXIST` when there is something.
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
  changeMode(target, mode) // not by open(2), from which the umask takes bits away
  prepare?.(to.fd)
  sync(to.fd)
}

/** A copy that all may execute, in place of what was there. */
export function copyExecutable(source: string, target: string): void {
  tryUnlink(target)
  copyWhole(source, target, 0o755)
}

const LABEL = "security.selinux"
const CAPABILITIES = "security.capability"

/**
 * Gives a new file the SELinux label of the file that it replaces, and the capability bits (`setcap`) of its source or of an earlier
 * version. A name that is new has the label that the kernel's policy gives files of this directory.
 */
export function carryAttributes(path: string, file: Fd, from: Attributes): void {
  const label = from.label === undefined ? undefined : findAttribute(from.label, LABEL)
  // A label that it has already is not set: in a container that may not be allowed.
  if (label && label.join() !== findAttribute(path, LABEL)?.join()) setAttribute(file, LABEL, label)
  const bits = from.capabilities.map((path) => findAttribute(path, CAPABILITIES)).find((found) => found)
  if (bits) setAttribute(file, CAPABILITIES, bits)
}

/** The files that a new one has its attributes of; of several with capability bits the first counts. */
interface Attributes {
  readonly label: string | undefined
  readonly capabilities: readonly string[]
}

/** Gives a file a second name, or makes a copy where the file system has no hard links. */
export function keep(file: string, kept: string): void {
  try {
    link(file, kept)
  } catch (error) {
    if (!isErrno(error, "EPERM", "EOPNOTSUPP", "EMLINK")) throw error
    copyWhole(file, kept, stat(file).mode & 0o7777)
  }
}

/** Removes a file, or a directory with its content, if it exists, like `rm -rf`. Follows no link. */
export function removeTree(path: string): void {
  const found = findStat(path, true)
  if (!found) return
  if (!isDirectory(found)) return void tryUnlink(path)
  for (const name of readDirectory(path)) removeTree(`${path}/${name}`)
  removeDirectory(path)
}
