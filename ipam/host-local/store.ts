import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { isErrno, randomHex } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, kernelFiles } from "./files.ts"
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
        return new PreparedLease(this.files, path)
      } catch (error) {
        if (isErrno(error, "ENOENT")) this.create()
        else if (!isErrno(error, "EEXIST")) {
          ifPresent(() => this.files.unlink(path))
          throw error
        }
      }
    }
  }
}

/** The file of a reservation before it is one. It goes with its scope; the names that it was given stay. */
export class PreparedLease implements Disposable {
  readonly path: string
  /** When it was written, in nanoseconds since 1970. */
  readonly written: bigint
  readonly #files: Files

  constructor(files: Files, path: string) {
    this.#files = files
    this.path = path
    this.written = files.stat(path).modified
  }

  [Symbol.dispose](): void {
    try {
      this.#files.unlink(this.path)
    } catch {
      // Removed with other abandoned ones when the index is rebuilt.
    }
  }
}
