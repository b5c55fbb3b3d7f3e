import { stationProgram } from "../integration/lab/mod.ts"

/** How many busy loops make a loaded node. */
const loops = 2

/** Other work on the node: processes that never wait, ended by the disposal, or by themselves when this process ends. */
export class Load implements AsyncDisposable {
  readonly #processes = Array.from({ length: loops }, () => Bun.spawn([stationProgram, "busy"]))

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) process.kill("SIGKILL")
    await Promise.all(this.#processes.map(({ exited }) => exited))
  }
}
