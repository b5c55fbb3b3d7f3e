import { type Namespace, programEnv } from "../../lab/mod.ts"

interface Question {
  readonly id: number
  readonly url: string
  readonly init: BunFetchRequestInit
}

interface Answer {
  readonly id: number
  readonly status?: number
  readonly text?: string
  readonly error?: string
}

/** A client that sends HTTP requests from a process in another namespace. */
export class RequestsFrom implements AsyncDisposable {
  readonly #process: Bun.Subprocess
  readonly #waiting = new Map<number, PromiseWithResolvers<Response>>()
  #lastId = 0

  constructor(namespace: Namespace) {
    this.#process = Bun.spawn(namespace.commandLine([process.execPath, import.meta.path]), {
      env: { ...programEnv },
      stdio: ["ignore", "inherit", "inherit"],
      serialization: "advanced",
      ipc: (answer: Answer) => this.#settle(answer),
    })
  }

  /** Sends a request like `fetch`. `init` must be plain data, because it is sent to the process in the namespace. */
  readonly send = (url: string, init: BunFetchRequestInit): Promise<Response> => {
    const waiting = Promise.withResolvers<Response>()
    const question: Question = { id: ++this.#lastId, url, init }
    this.#waiting.set(question.id, waiting)
    this.#process.send(question)
    return waiting.promise
  }

  #settle({ id, status, text, error }: Answer): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting?.resolve(new Response(text, { status: status ?? 0 }))
    else waiting?.reject(new Error(error))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
  }
}

/** Answers a message from outside in the process inside: sends the request and returns the response. */
async function answer({ id, url, init }: Question): Promise<Answer> {
  try {
    const response = await fetch(url, init)
    return { id, status: response.status, text: await response.text() }
  } catch (error) {
    return { id, error: String(error) }
  }
}

if (import.meta.main) {
  process.on("message", async (question: Question) => process.send?.(await answer(question)))
  process.on("disconnect", () => process.exit())
}
