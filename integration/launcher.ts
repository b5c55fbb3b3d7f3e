import { join } from "node:path"
import { calls } from "../host/seccomp.json"
import { mustRun } from "./program.ts"
import { TemporaryDirectory } from "./temporary-directory.ts"

/** The program `launcher`, which runs others under limits, `launcher.c`. Its filter is that of `host/seccomp.json`. */
export class Launcher implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  readonly path: string

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory
    this.path = directory.join("launcher")
  }

  static async build(): Promise<Launcher> {
    const launcher = new Launcher(await TemporaryDirectory.create("cni-launcher"))
    const source = join(import.meta.dir, "launcher.c")
    const numbers = calls.map((name) => `SYS_${name}`)
    const flags = ["-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", `-DCALLS=${numbers.join(",")}`]
    await mustRun(["gcc", ...flags, "-o", launcher.path, source])
    return launcher
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}
