import { crc32, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Fd, FileDescriptor, isErrno, Open, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, readSmall } from "./files.ts"
import { type Address, formatAddress, parseAddress } from "./ranges.ts"

/** The owner of a reservation. */
export interface LeaseOwner {
  readonly containerId: string
  /** "" in reservations made before 2019, which hold for all interfaces of a container. */
  readonly ifName: string
}

/** The content of a reservation's file: upstream's format, byte for byte. */
export function formatOwner({ containerId, ifName }: LeaseOwner): string {
  return ifName === "" ? containerId.trim() : `${containerId.trim()}\r\n${ifName}`
}

/**
 * Reads the file of a reservation. "torn": nothing, or zero bytes from somewhere on, as after a power cut. "foreign": another
 * format, such as a note of the operator's.
 */
export function parseOwner(text: string): LeaseOwner | "torn" | "foreign" {
  const trimmed = text.trim()
  if (trimmed === "" || /^[^\0]*\0+$/.test(trimmed)) return "torn"
  const [, containerId, ifName = ""] = /^([A-Za-z0-9][\w.-]*)(?:\r\n([^\s/]+))?$/.exec(trimmed) ?? []
  return containerId === undefined ? "foreign" : { containerId, ifName }
}

/** Whether a reservation of `holder` is one of `owner`: by container and interface, or an old one by container alone. */
export function isHeldBy(holder: LeaseOwner | "torn" | "foreign", owner: LeaseOwner): boolean {
  if (typeof holder === "string" || holder.containerId !== owner.containerId) return false
  return holder.ifName === owner.ifName || holder.ifName === ""
}

/** "container abc, interface eth0" */
export function describeOwner({ containerId, ifName }: LeaseOwner): string {
  return ifName === "" ? `container ${containerId}` : `container ${containerId}, interface ${ifName}`
}

/** Where the tool comes from that errors recommend: a node may not have it, since no plugin needs it. */
export const toolHint = '("cni" is put on a node by "cni install --tool-dir")'

/** The addresses that have a file, by their text. Other names than the canonical one are not reservations. */
export function* listAddresses(files: Files, directory: string): Iterable<[string, Address]> {
  for (const name of files.readDirectory(directory)) {
    const address = parseAddress(name)
    if (address && formatAddress(address) === name) yield [name, address]
  }
}

/** Reads the owner from the file of an address; `undefined` when the file does not exist. */
export function readHolder(
  files: Files,
  directory: string,
  address: string,
  buffer?: Uint8Array<ArrayBuffer>,
): LeaseOwner | "torn" | "foreign" | undefined {
  try {
    const text = ifPresent(() => readSmall(files, `${directory}/${address}`, buffer))
    return text === undefined ? undefined : parseOwner(text)
  } catch (error) {
    if (isErrno(error, "EISDIR", "ELOOP", "ENXIO")) return "foreign"
    throw error
  }
}

/** `O_TMPFILE`, a file without a name, on x86-64 and on arm64, <fcntl.h>; each refuses the other's with `EINVAL`. */
export const unnamed = [0o20200000, 0o20040000]

/** The prefix of the draft names of an owner's reservations: the only trace of the owner in an empty draft. */
export function draftPrefix({ containerId, ifName }: LeaseOwner): string {
  return crc32(`${containerId}@${ifName}`).toString(16).padStart(8, "0")
}

/** The file of a reservation before it is one. It goes with its scope; the names that it was given stay. */
export class PreparedLease implements Disposable {
  readonly #path: string
  readonly #owner: LeaseOwner
  /** When it was written, in nanoseconds since 1970. */
  readonly #written: bigint
  readonly #files: Files
  readonly #isDurable: boolean

  /** `isDurable`: each file is on the disk before anything else happens. */
  constructor(files: Files, path: string, owner: LeaseOwner, isDurable: boolean) {
    this.#files = files
    this.#isDurable = isDurable
    this.#path = path
    this.#owner = owner
    this.#written = files.stat(path).modified
  }

  /**
   * Makes it the reservation of a path. Returns when the file was written, in nanoseconds since 1970; `undefined` when there is a file. It appears whole, as a link; where the file system has no
   * links to files (vfat, some network and overlay mounts), by exclusive creation as upstream does it: what a crash then
   * leaves empty is repaired as any torn file is. Throws `SyscallError`, and nothing was made.
   */
  take(path: string): bigint | undefined {
    try {
      this.#files.link(this.#path, path)
      return this.#written
    } catch (error) {
      if (isErrno(error, "EEXIST")) return undefined
      if (!isErrno(error, "EPERM", "EOPNOTSUPP", "ENOSYS", "EXDEV", "EMLINK")) throw error
    }
    return this.#create(path)
  }

  #create(path: string): bigint | undefined {
    try {
      using file = new FileDescriptor(this.#files.open(path, Open.WriteOnly | Open.Create | Open.Exclusive, 0o600))
      this.#fill(file.fd, path)
    } catch (error) {
      if (isErrno(error, "EEXIST")) return undefined
      throw error
    }
    return this.#files.stat(path).modified
  }

  #fill(fd: Fd, path: string): void {
    try {
      this.#files.writeAt(fd, encodeUtf8(formatOwner(this.#owner)), 0)
      if (this.#isDurable) this.#files.sync(fd)
    } catch (error) {
      if (error instanceof SyscallError) withdraw(this.#files, path)
      throw error
    }
  }

  [Symbol.dispose](): void {
    try {
      this.#files.unlink(this.#path)
    } catch {
      // Removed with other abandoned ones when the index is rebuilt.
    }
  }
}

/**
 * Removes a file after a failure. Its own errors are ignored, since the first error is more useful; a rebuild of the
 * index handles a remaining file.
 */
export function withdraw(files: Files, path: string): void {
  try {
    files.unlink(path)
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
  }
}
