import { join } from "node:path"
import { mustRun } from "./program.ts"
import { TemporaryDirectory } from "./temporary-directory.ts"

/** The program `kill-at`: `kill-at N PROGRAM` kills PROGRAM as it makes its N-th system call, `kill-at.c`. */
export class KillAt implements AsyncDisposable {
  readonly #directory: TemporaryDirectory
  readonly path: string

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory
    this.path = directory.join("kill-at")
  }

  static async build(): Promise<KillAt> {
    const killAt = new KillAt(await TemporaryDirectory.create("cni-kill-at"))
    const source = join(import.meta.dir, "kill-at.c")
    await mustRun(["musl-gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o", killAt.path, source])
    return killAt
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
  }
}

/** The exit code of a program that SIGKILL has ended, as shells and `kill-at` have it. */
export const killed = 128 + 9
