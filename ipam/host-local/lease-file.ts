import { crc32, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Fd, FileDescriptor, isErrno, Open, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, readSmall } from "./files.ts"
import { type Address, formatAddress, parseAddress } from "./ranges.ts"

export interface LeaseOwner {
  readonly containerId: string
  /** The interface; "" in reservations from before 2019, which are for all interfaces of a container. */
  readonly ifName: string
}

/** Returns the content of a reservation's file, exactly as upstream writes it. */
export function formatOwner({ containerId, ifName }: LeaseOwner): string {
  return ifName === "" ? containerId.trim() : `${containerId.trim()}\r\n${ifName}`
}

/**
 * Parses the content of a reservation's file. Returns "torn" if it is empty or ends with zero bytes, as after a power
 * cut. Returns "foreign" for another format, such as an administrator's note.
 */
export function parseOwner(text: string): LeaseOwner | "torn" | "foreign" {
  const trimmed = text.trim()
  if (trimmed === "" || /^[^\0]*\0+$/.test(trimmed)) return "torn"
  const [, containerId, ifName = ""] = /^([A-Za-z0-9][\w.-]*)(?:\r\n([^\s/]+))?$/.exec(trimmed) ?? []
  return containerId === undefined ? "foreign" : { containerId, ifName }
}

/** Reports whether a reservation is this owner's. In the old format, only the container is compared. */
export function isHeldBy(holder: LeaseOwner | "torn" | "foreign", owner: LeaseOwner): boolean {
  if (typeof holder === "string" || holder.containerId !== owner.containerId) return false
  return holder.ifName === owner.ifName || holder.ifName === ""
}

/** Returns "container abc, interface eth0". */
export function describeOwner({ containerId, ifName }: LeaseOwner): string {
  return ifName === "" ? `container ${containerId}` : `container ${containerId}, interface ${ifName}`
}

/** How to install the tool that errors recommend. A node may lack the tool, because no plugin needs it. */
export const toolHint = '("cni install --tool-dir" installs "cni")'

/** Returns the addresses that have a file, each with the file's name. Ignores names not written in our format. */
export function* listAddresses(files: Files, directory: string): Iterable<[string, Address]> {
  for (const name of files.readDirectory(directory)) {
    const address = parseAddress(name)
    if (address && formatAddress(address) === name) yield [name, address]
  }
}

/** Reads the owner from an address's file. Returns `undefined` if the file does not exist. */
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

/** `O_TMPFILE`, for an unnamed file, on x86-64 and arm64, <fcntl.h>. Each machine refuses the other's with `EINVAL`. */
export const unnamed = [0o20200000, 0o20040000]

/** Returns the prefix in the names of an owner's drafts. If a draft is empty, only this prefix identifies the owner. */
export function draftPrefix({ containerId, ifName }: LeaseOwner): string {
  return crc32(`${containerId}@${ifName}`).toString(16).padStart(8, "0")
}

/**
 * The prepared file of a reservation. Disposal deletes this draft, but not the reservations that `take` made from it.
 */
export class PreparedLease implements Disposable {
  readonly #path: string
  readonly #owner: LeaseOwner
  /** The write time, in nanoseconds since 1970. */
  readonly #written: bigint
  readonly #files: Files
  readonly #isDurable: boolean

  /** With `isDurable`, syncs each file before the next step. */
  constructor(files: Files, path: string, owner: LeaseOwner, isDurable: boolean) {
    this.#files = files
    this.#isDurable = isDurable
    this.#path = path
    this.#owner = owner
    this.#written = files.stat(path).modified
  }

  /**
   * Makes the draft the reservation at a path. Returns its write time in nanoseconds since 1970, or `undefined` if the
   * path exists. The file appears complete, as a hard link. If the file system has no hard links (vfat, some network
   * and overlay mounts), creates a new file exclusively, like upstream; if a crash leaves that file empty, it is
   * repaired like any torn file. If this throws `SyscallError`, it has created nothing.
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
      // A rebuild of the index removes the draft with other abandoned drafts.
    }
  }
}

/** Removes a file after a failure. Ignores own errors: the first error says more, and a rebuild handles the file. */
export function withdraw(files: Files, path: string): void {
  try {
    files.unlink(path)
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
  }
}
