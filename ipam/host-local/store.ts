import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Fd, FileDescriptor, isErrno, Open, randomHex, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "./files.ts"
import { readBootId } from "./liveness.ts"
import { lockStore } from "./lock.ts"
import { formatOwner, type Owner } from "./owner.ts"
import { Session } from "./session.ts"

/** Where the reservations of a network are. */
export interface StorePlace {
  /** `<dataDir>/<network>` */
  readonly directory: string
  log(line: string): void
  readonly files?: Files
  readonly bootId?: string
  readonly lockDeadlineMs?: number
}

/** The reservations of one network: a directory with a file for each address, in upstream's layout. */
export class Store {
  readonly directory: string
  readonly files: Files
  readonly bootId: string
  readonly log: (line: string) => void
  readonly #lockDeadlineMs: number | undefined

  constructor({ directory, log, files = kernelFiles, bootId = readBootId(files), lockDeadlineMs }: StorePlace) {
    this.directory = directory
    this.log = log
    this.files = files
    this.bootId = bootId
    this.#lockDeadlineMs = lockDeadlineMs
  }

  /** Makes the directories of the store, like `mkdir -p`. */
  create(): void {
    this.files.makeDirectories(this.directory)
    this.files.makeDirectories(`${this.directory}/.index/new`, 0o700)
  }

  /**
   * Runs `work` while no other process works on the store; `undefined` when there is no store. What `work` throws leaves
   * the seal broken, so that the next session looks at every file. Throws code 11 when the lock is held for too long.
   */
  locked<T>(work: (session: Session) => T): T | undefined {
    using lock = lockStore(this.directory, this.#lockDeadlineMs)
    if (!lock) return undefined
    const session = new Session(this)
    const value = work(session)
    session.close()
    return value
  }

  /** Puts the names of the reservations on the disk. */
  sync(): void {
    this.files.syncDirectory(this.directory)
  }

  /** Writes the file of a reservation, on the disk before it has the name of an address. */
  prepareLease(owner: Owner): PreparedLease {
    for (;;) {
      const path = `${this.directory}/.index/new/${randomHex(8)}`
      try {
        this.files.createFile(path, encodeUtf8(formatOwner(owner)))
        return new PreparedLease(this.files, path, owner)
      } catch (error) {
        if (isErrno(error, "ENOENT")) this.create()
        else if (!isErrno(error, "EEXIST")) {
          withdraw(this.files, path)
          throw error
        }
      }
    }
  }
}

/** The file of a reservation before it is one. It goes with its scope; the names that it was given stay. */
export class PreparedLease implements Disposable {
  readonly #path: string
  readonly #owner: Owner
  /** When it was written, in nanoseconds since 1970. */
  readonly #written: bigint
  readonly #files: Files
  /** When the files were written that could not be links to this one. */
  readonly #copies = new Map<string, bigint>()

  constructor(files: Files, path: string, owner: Owner) {
    this.#files = files
    this.#path = path
    this.#owner = owner
    this.#written = files.stat(path).modified
  }

  /**
   * Makes it the reservation of a path; false when there is a file. It appears whole, as a link; where the file system has no
   * links to files (vfat, some network and overlay mounts), by exclusive creation as upstream does it: what a crash then
   * leaves empty is repaired as any torn file is. Throws `SyscallError`, and nothing was made.
   */
  take(path: string): boolean {
    try {
      this.#files.link(this.#path, path)
      return true
    } catch (error) {
      if (isErrno(error, "EEXIST")) return false
      if (!isErrno(error, "EPERM", "EOPNOTSUPP", "ENOSYS", "EXDEV", "EMLINK")) throw error
    }
    return this.#create(path)
  }

  /** When the file of a path was written that `take` made, in nanoseconds since 1970. */
  writtenAs(path: string): bigint {
    return this.#copies.get(path) ?? this.#written
  }

  #create(path: string): boolean {
    try {
      using file = new FileDescriptor(this.#files.open(path, Open.WriteOnly | Open.Create | Open.Exclusive, 0o600))
      this.#fill(file.fd, path)
    } catch (error) {
      if (isErrno(error, "EEXIST")) return false
      throw error
    }
    this.#copies.set(path, this.#files.stat(path).modified)
    return true
  }

  #fill(fd: Fd, path: string): void {
    try {
      this.#files.writeAt(fd, encodeUtf8(formatOwner(this.#owner)), 0)
      this.#files.sync(fd)
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

/** Removes what was made in vain; the error that led here says more than one of this. A rebuild of the index sees to it. */
function withdraw(files: Files, path: string): void {
  try {
    files.unlink(path)
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
  }
}
