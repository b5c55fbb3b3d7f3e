import { mkdtemp, readdir, rename, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { FileDescriptor, isErrno, Open, tryLock } from "../../pkg/libc/mod.ts"

/**
 * A directory that is deleted with its content at the end of the declaring scope.
 * @example await using directory = await TemporaryDirectory.create()
 */
export class TemporaryDirectory implements AsyncDisposable {
  /** The absolute path. */
  readonly path: string

  readonly #lock: Disposable | undefined

  private constructor(path: string, lock?: Disposable) {
    this.path = path
    this.#lock = lock
  }

  /** Makes a directory under `parent`, by default the machine's temporary directory; its name begins with `label`. */
  static async create(label = "cni-test", parent = tmpdir()): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(parent, `${label}-`)))
  }

  /**
   * Creates a directory for much data: first removes directories of killed processes with this label. A process locks
   * its directory for its whole life.
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
    await rename(draft, path) // it has its name only with its lock: another process would remove it
    return new TemporaryDirectory(path, lock)
  }

  /** Returns the absolute path of a file in the directory. */
  join(...parts: string[]): string {
    return join(this.path, ...parts)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
    this.#lock?.[Symbol.dispose]()
  }
}

/** Opens a directory; `undefined` if another process has just removed it. */
function tryOpen(path: string): FileDescriptor | undefined {
  try {
    return FileDescriptor.open(path, Open.ReadOnly)
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined
    throw error
  }
}
