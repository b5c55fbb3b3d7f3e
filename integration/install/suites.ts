import { link, mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { builtPlugins, mustRun, type Output, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/** Two suites whose plugins differ in their bytes, each with the tool, and a directory to install them in. */
export class Suites implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  readonly bin: string

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory
    this.bin = directory.join("opt")
  }

  static async create(): Promise<Suites> {
    const suites = new Suites(await TemporaryDirectory.create("cni-suites", join(builtPlugins, "..")))
    await mkdir(suites.bin)
    for (const suite of ["A", "B"] as const) {
      await mkdir(join(suites.path(suite), "bin"), { recursive: true })
      await link(join(builtPlugins, "../cni"), suites.tool(suite))
      for (const name of pluginNames) {
        const bytes = await readFile(join(builtPlugins, name))
        const own = Buffer.concat([bytes, Buffer.from(`suite ${suite}`)]) // after the loaded part
        await writeFile(join(suites.path(suite), "bin", name), own, { mode: 0o755 })
      }
    }
    return suites
  }

  path(...parts: string[]): string {
    return this.#directory.join(...parts)
  }

  tool(suite: "A" | "B"): string {
    return this.path(suite, "cni")
  }

  /** Returns the command line of `cni install --bin-dir BIN FLAGS` for a suite. */
  command(suite: "A" | "B", ...flags: string[]): string[] {
    return [this.tool(suite), "install", "--bin-dir", this.bin, ...flags]
  }

  /** Runs an installation. Throws if the installation fails. */
  async install(suite: "A" | "B", ...flags: string[]): Promise<Output> {
    return await mustRun(this.command(suite, ...flags))
  }

  async tryInstall(suite: "A" | "B", ...flags: string[]): Promise<Output> {
    return await runProgram(this.command(suite, ...flags))
  }

  /** Returns the suites of the installed plugins: "A", "B" or "A B". Throws for a file of neither suite. */
  async installed(): Promise<string> {
    const of = pluginNames.map(async (name) => {
      const bytes = await readFile(join(this.bin, name))
      for (const suite of ["A", "B"]) if (bytes.equals(await readFile(this.path(suite, "bin", name)))) return suite
      throw new Error(`"${name}" is of neither suite: ${bytes.length} bytes`)
    })
    return [...new Set(await Promise.all(of))].sort().join(" ")
  }

  /** Returns the names of the directory's files that are not plugins. */
  async others(): Promise<string[]> {
    return (await readdir(this.bin)).filter((name) => !pluginNames.includes(name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}
