import { programs } from "./programs.ts"

/** What else a node does while rows are measured, see load.c. */
export const loads = {
  /** More processes that never wait than any node has processors for. */
  processes: { suffix: ", with 20 busy processes", count: 20, command: [programs.load, "processor"] },
  /** Two writers that sync, where the leases are. */
  disk: { suffix: ", with a busy disk", count: 2, command: [programs.load, "disk", "/var/tmp"] },
} as const

export type LoadKind = keyof typeof loads

/** Other work on the node: processes, ended by the disposal, or by the end of the thread that has started them. */
export class Load implements AsyncDisposable {
  readonly #processes: readonly Bun.Subprocess[]

  constructor(kind: LoadKind) {
    const { count, command } = loads[kind]
    this.#processes = Array.from({ length: count }, () => Bun.spawn([...command]))
  }

  /** How many run; fewer than were started when one has failed. */
  get running(): number {
    return this.#processes.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null).length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) process.kill("SIGKILL")
    await Promise.all(this.#processes.map(({ exited }) => exited))
  }
}
