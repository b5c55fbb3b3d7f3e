import { join } from "node:path"
import { createInterface } from "node:readline"
import { execa } from "execa"
import { type Namespace, programEnv } from "../integration/mod.ts"

/** A program to run and time: its argv, whole environment and stdin. */
export interface Job {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly input: string
}

/** What came of a job. `ms` is the wall time from before the spawn to after the wait. */
export interface Timing {
  readonly ms: number
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * A process that sits inside a namespace and runs jobs there, so that entering the namespace is not part of any time,
 * and so that contenders in namespaces of their own can take turns.
 */
export class Station implements AsyncDisposable {
  readonly #process: ReturnType<typeof startWorker>
  readonly #answers: AsyncIterator<string>

  private constructor(process: ReturnType<typeof startWorker>) {
    this.#process = process
    this.#answers = createInterface(process.stdout)[Symbol.asyncIterator]()
  }

  /** Starts a station inside the namespace. */
  static open(where: Namespace): Station {
    return new Station(startWorker(where))
  }

  /** Runs a job, and throws when its exit code is not 0: the time of a failure says nothing. */
  async time(job: Job): Promise<Timing> {
    this.#process.stdin.write(`${JSON.stringify(job)}\n`)
    const answer = await this.#answers.next()
    if (answer.done) throw new Error(`The station inside the namespace has died: ${(await this.#process).stderr}`)
    const timing = JSON.parse(answer.value) as Timing
    if (timing.exitCode === 0) return timing
    throw new Error(`"${job.command.join(" ")}" failed: ${timing.stdout}${timing.stderr}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.stdin.end()
    await this.#process
  }
}

function startWorker(where: Namespace) {
  const [file = "", ...args] = where.commandLine([process.execPath, join(import.meta.dir, "worker.ts")])
  return execa(file, args, {
    env: programEnv,
    extendEnv: false,
    stdin: "pipe",
    buffer: { stdout: false },
    reject: false,
  })
}
