import { mkdtemp, readdir, rename, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { FileDescriptor, isErrno, Open, tryLock } from "../../pkg/libc/mod.ts"

/**
 * A directory that disposal deletes with its content.
 *
 * @example await using directory = await TemporaryDirectory.create()
 */
export class TemporaryDirectory implements AsyncDisposable {
  readonly path: string

  readonly #lock: Disposable | undefined

  private constructor(path: string, lock?: Disposable) {
    this.path = path
    this.#lock = lock
  }

  /** Creates a directory in `parent`, by default the machine's temporary directory. Its name begins with `label`. */
  static async create(label = "cni-test", parent = tmpdir()): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(parent, `${label}-`)))
  }

  /**
   * Creates a directory for much data. First removes directories with the same label that killed processes left. Each
   * process locks its directory until it ends.
   */
  static async createLocked(label: string, parent = tmpdir()): Promise<TemporaryDirectory> {
    for (const name of await readdir(parent)) {
      if (!name.startsWith(`${label}-`)) continue
      using left = tryOpen(join(parent, name))
      if (left && tryLock(left.fd)) await rm(join(parent, name), { recursive: true, force: true })
    }
    const draft = await mkdtemp(join(parent, `.${label}-`))
    const lock = FileDescriptor.open(draft, Open.ReadOnly)
    tryLock(lock.fd)
    const path = join(parent, basename(draft).slice(1))
    await rename(draft, path) // renamed only after it is locked: another process removes unlocked directories
    return new TemporaryDirectory(path, lock)
  }

  join(...parts: string[]): string {
    return join(this.path, ...parts)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
    this.#lock?.[Symbol.dispose]()
  }
}

/** Opens a directory. Returns undefined if another process has just removed it. */
function tryOpen(path: string): FileDescriptor | undefined {
  try {
    return FileDescriptor.open(path, Open.ReadOnly)
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined
    throw error
  }
}
