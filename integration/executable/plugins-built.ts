import { join } from "node:path"
import { namePlugins } from "../../scripts/build.ts"
import { TemporaryDirectory } from "../lab/mod.ts"

/** How long a test may take to build an executable: the engine is compiled once for each way of doing so. */
export const buildingMs = 290_000

/**
 * The plugins of a build that only tests have, in a directory of their own below `dist`.
 * @example await using plugins = await PluginsBuilt.create((out) => buildFromBytecode(out))
 */
export class PluginsBuilt implements AsyncDisposable {
  readonly #directory: TemporaryDirectory

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory
  }

  static async create(build: (out: string) => Promise<void>): Promise<PluginsBuilt> {
    const directory = await TemporaryDirectory.create("cni-build", join(import.meta.dir, "../../dist"))
    await build(directory.join("executable"))
    namePlugins(directory.join("executable"), directory.join("bin"))
    return new PluginsBuilt(directory)
  }

  /** The executable under the name of a plugin. */
  path(plugin: string): string {
    return this.#directory.join("bin", plugin)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}
