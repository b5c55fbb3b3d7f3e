import { link, mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { builtPlugins, mustRun, type Output, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/** Two suites that differ in each plugin's bytes, each with the tool beside it, and a directory to install into. */
export class Suites implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  /** The directory of the installed plugins. */
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
        const own = Buffer.concat([bytes, Buffer.from(`suite ${suite}`)]) // behind what is loaded
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

  /** `cni install --bin-dir BIN FLAGS` of a suite. */
  command(suite: "A" | "B", ...flags: string[]): string[] {
    return [this.tool(suite), "install", "--bin-dir", this.bin, ...flags]
  }

  /** Runs an installation that must succeed. */
  async install(suite: "A" | "B", ...flags: string[]): Promise<Output> {
    return await mustRun(this.command(suite, ...flags))
  }

  async tryInstall(suite: "A" | "B", ...flags: string[]): Promise<Output> {
    return await runProgram(this.command(suite, ...flags))
  }

  /** Returns the suites of all names, each once: "A", "A B". Throws for a file of neither suite. */
  async installed(): Promise<string> {
    const of = pluginNames.map(async (name) => {
      const bytes = await readFile(join(this.bin, name))
      for (const suite of ["A", "B"]) if (bytes.equals(await readFile(this.path(suite, "bin", name)))) return suite
      throw new Error(`"${name}" is of neither suite: ${bytes.length} bytes`)
    })
    return [...new Set(await Promise.all(of))].sort().join(" ")
  }

  /** The directory's files other than plugins. */
  async others(): Promise<string[]> {
    return (await readdir(this.bin)).filter((name) => !pluginNames.includes(name))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}
