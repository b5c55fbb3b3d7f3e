import { programs } from "./programs.ts"

/** The kinds of other work on a node during a measurement, see load.c. */
export const loads = {
  /** Busy processes, more than any node has processors. */
  processes: { suffix: ", with 20 busy processes", count: 20, command: [programs.load, "processor"] },
  /** Two writers that call fsync, on the disk with the leases. */
  disk: { suffix: ", with a busy disk", count: 2, command: [programs.load, "disk", "/var/tmp"] },
} as const

export type LoadKind = keyof typeof loads

/** The other work on a node. Its processes end on disposal, or with the thread that started them. */
export class Load implements AsyncDisposable {
  readonly #processes: readonly Bun.Subprocess[]

  constructor(kind: LoadKind) {
    const { count, command } = loads[kind]
    this.#processes = Array.from({ length: count }, () => Bun.spawn([...command]))
  }

  /** The number of running processes. If a process has failed, this is less than the number that was started. */
  get running(): number {
    return this.#processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null).length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) process.kill("SIGKILL")
    await Promise.all(this.#processes.map(({ exited }) => exited))
  }
}
