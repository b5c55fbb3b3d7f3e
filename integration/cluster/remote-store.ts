import { join } from "node:path"
import {
  type EtcdLimits,
  type Identity,
  type Kind,
  type Owner,
  type Records,
  type Store,
  type StoreConfig,
  type Stored,
  StoreError,
  type WatchEvent,
} from "../../agent/mod.ts"
import { type Namespace, programEnv } from "../lab/mod.ts"

/** A call for a store of a `store-process.ts`. */
export interface Question {
  readonly id: number
  readonly store: number
  readonly call: "open" | "memory" | "abort" | "close" | Exclude<keyof Store & string, "name" | "boundPods">
  readonly args: readonly unknown[]
}

/** What became of a call; a watch has events before its result. */
export interface Answer {
  readonly id: number
  readonly result?: unknown
  readonly event?: WatchEvent<Kind>
  readonly error?: { readonly message: string; readonly outcome?: StoreError["outcome"] }
}

/** A process inside a namespace that has clients of etcd: their connections are those of the namespace. */
export class StoreProcess implements AsyncDisposable {
  readonly #process: Bun.Subprocess
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #lastId = 0

  constructor(namespace: Namespace) {
    const script = join(import.meta.dir, "store-process.ts")
    this.#process = Bun.spawn(namespace.commandLine([process.execPath, script]), {
      env: { ...programEnv },
      stdio: ["ignore", "inherit", "inherit"],
      serialization: "advanced",
      ipc: (answer: Answer) => this.#waiting.get(answer.id)?.(answer),
    })
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Opens a client. */
  async open(config: Extract<StoreConfig, { type: "etcd" }>, limits: Partial<EtcdLimits> = {}): Promise<Store> {
    const store = ++this.#lastId
    const name = await this.call<string>(store, "open", config, limits)
    return new RemoteStore(this, store, name)
  }

  /** Memory and time on the processor of the process. */
  usage(): Promise<{ rss: number; cpuMs: number }> {
    return this.call(0, "memory")
  }

  async call<T>(store: number, call: Question["call"], ...args: unknown[]): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    this.ask({ store, call, args }, (answer) => {
      if (answer.error) reject(errorOf(answer.error))
      else resolve(answer.result as T)
    })
    return promise
  }

  /** Sends a question; `take` is called for each event and for the result. */
  ask(question: Omit<Question, "id">, take: (answer: Answer) => void): number {
    const id = ++this.#lastId
    this.#waiting.set(id, (answer) => {
      if (!answer.event) this.#waiting.delete(id)
      take(answer)
    })
    this.#process.send({ id, ...question })
    return id
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
  }
}

function errorOf({ message, outcome }: NonNullable<Answer["error"]>): Error {
  return outcome === undefined ? new Error(message) : new StoreError(message, outcome)
}

/** A store whose calls are made in another process. */
class RemoteStore implements Store {
  readonly name: string
  readonly #process: StoreProcess
  readonly #store: number

  constructor(process: StoreProcess, store: number, name: string) {
    this.#process = process
    this.#store = store
    this.name = name
  }

  #call<T>(call: Question["call"], ...args: unknown[]): Promise<T> {
    return this.#process.call(this.#store, call, ...args)
  }

  identity = (): Promise<Identity> => this.#call("identity")
  find = <K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> => this.#call("find", kind, key)
  list = <K extends Kind>(kind: K): Promise<Stored<K>[]> => this.#call("list", kind)
  members = (): Promise<readonly Owner[]> => this.#call("members")
  create = <K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> =>
    this.#call("create", kind, key, value)
  replace = <K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> =>
    this.#call("replace", stored, value)
  remove = <K extends Kind>(stored: Stored<K>): Promise<boolean> => this.#call("remove", stored)

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    const answers: Answer[] = []
    let wake = () => {}
    const id = this.#process.ask({ store: this.#store, call: "watch", args: [kind] }, (answer) => {
      answers.push(answer)
      wake()
    })
    const abort = () => void this.#call("abort", id)
    signal.addEventListener("abort", abort)
    try {
      for (;;) {
        const answer = answers.shift()
        if (answer?.error) throw errorOf(answer.error)
        if (answer?.event) yield answer.event as WatchEvent<Kind> as WatchEvent<K>
        else if (answer) return
        else {
          const { promise, resolve } = Promise.withResolvers<void>()
          wake = resolve
          await promise
        }
      }
    } finally {
      signal.removeEventListener("abort", abort)
      abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#call("close")
  }
}
