import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * A directory that goes with the scope that declared it, with everything in it.
 * @example await using directory = await TemporaryDirectory.create()
 */
export class TemporaryDirectory implements AsyncDisposable {
  /** The absolute path. */
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  /** Makes a directory under `parent`, by default the machine's temporary directory; its name begins with `label`. */
  static async create(label = "cni-test", parent = tmpdir()): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(parent, `${label}-`)))
  }

  /** The absolute path of something inside the directory. */
  join(...parts: string[]): string {
    return join(this.path, ...parts)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true })
  }
}
