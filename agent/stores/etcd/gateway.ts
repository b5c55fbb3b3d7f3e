import type { StoreConfig } from "../../config.ts"
import { StoreError } from "../../store.ts"
import { Connections, FileText, TlsFiles } from "../../tls.ts"
import { asFault, faultOfAnswer, MemberFault, wantsToken } from "./fault.ts"
import { errorText, type Message, parseMessage, readToken, WireFault } from "./wire.ts"

export type EtcdConfig = Extract<StoreConfig, { type: "etcd" }>

/** A question to one member: the path of the gateway, its body, and what reads the answer and throws `WireFault`. */
export interface Question<T> {
  /** For messages, after "Cannot". */
  readonly what: string
  readonly path: string
  readonly body: object
  readonly read: (answer: Message) => T
}

/** A sign of life that a member was asked for. */
interface Sign {
  readonly askedMs: number
  readonly answer: Promise<unknown>
}

/** The JSON gateways of a cluster's members: each request goes to the member that answered last, and after a failure to the next. */
export class Gateway implements Disposable {
  readonly endpoints: readonly string[]
  readonly #requestMs: number
  readonly #connections: Connections
  readonly #username: string | undefined
  readonly #password: FileText | undefined
  readonly #end = new AbortController()
  readonly #signs = new Map<string, Sign>()
  #preferred = 0
  #token: Promise<string | undefined> | undefined

  /** `requestMs` is the time of each request. */
  constructor(config: EtcdConfig, requestMs: number) {
    this.endpoints = config.endpoints.map((endpoint) => endpoint.replace(/\/+$/, ""))
    this.#requestMs = requestMs
    this.#connections = new Connections(new TlsFiles(config.tls))
    this.#username = config.username
    this.#password = config.passwordFile === undefined ? undefined : new FileText(config.passwordFile)
  }

  /** The member to ask next. */
  get preferred(): string {
    return this.endpoints[this.#preferred] ?? ""
  }

  /** Turns to the next member, if this one is still the preferred one. */
  avoid(endpoint: string): void {
    if (this.preferred === endpoint) this.#preferred = (this.#preferred + 1) % this.endpoints.length
  }

  /** Asks for something that changes nothing: one member after the other, until one answers. Throws `StoreError` "refused". */
  ask<T>(question: Question<T>): Promise<T> {
    return this.#askMembers(question, "refused")
  }

  /**
   * Asks for a change. Another member is asked only where the one before has not begun with it. Throws `StoreError`: "refused" where
   * nothing has changed, "unknown" where a member may have made the change, or makes it later.
   */
  change<T>(question: Question<T>): Promise<T> {
    return this.#askMembers(question, "unknown")
  }

  async #askMembers<T>(question: Question<T>, withoutAnswer: StoreError["outcome"]): Promise<T> {
    const reasons: string[] = []
    for (let tried = 0; tried < this.endpoints.length; tried++) {
      const endpoint = this.preferred
      try {
        return await this.send(endpoint, question)
      } catch (error) {
        const fault = asFault(error, this.#requestMs)
        reasons.push(`${endpoint}: ${fault.message}`)
        const isUnknown = fault.kind === "no answer" && withoutAnswer === "unknown"
        if (fault.kind !== "denied") this.avoid(endpoint)
        if (fault.kind === "denied" || isUnknown)
          throw new StoreError(`Cannot ${question.what}: ${fault.message}`, isUnknown ? "unknown" : "refused", fault)
      }
    }
    throw new StoreError(`Cannot ${question.what}: ${reasons.join("; ")}`, "refused")
  }

  /** Asks one member. Throws `MemberFault`. */
  async send<T>(endpoint: string, { path, body, read }: Omit<Question<T>, "what">): Promise<T> {
    try {
      const signal = AbortSignal.timeout(this.#requestMs)
      return read(parseMessage(await (await this.open(endpoint, path, body, signal)).text()))
    } catch (error) {
      throw asFault(error, this.#requestMs)
    }
  }

  /** A sign of life of one member. Watches that ask for one within `sameMs` have the same. Throws `MemberFault`. */
  signOfLife<T>(endpoint: string, question: Omit<Question<T>, "what">, sameMs: number): Promise<unknown> {
    const askedMs = performance.now()
    const last = this.#signs.get(endpoint)
    if (last && askedMs - last.askedMs < sameMs) return last.answer
    const answer = this.send(endpoint, question)
    this.#signs.set(endpoint, { askedMs, answer })
    return answer
  }

  /** Begins a request to one member, and gives an answer whose status is 200. A token that is refused is asked for anew, once. */
  async open(endpoint: string, path: string, body: object, signal: AbortSignal): Promise<Response> {
    const token = this.#tokenOf(endpoint)
    try {
      return await this.#post(endpoint, path, body, await token, signal)
    } catch (error) {
      if (this.#username === undefined || !wantsToken(error)) throw error
      if (this.#token === token) this.#token = undefined
      return await this.#post(endpoint, path, body, await this.#tokenOf(endpoint), signal)
    }
  }

  async #post(endpoint: string, path: string, body: object, token: string | undefined, signal: AbortSignal) {
    const headers = {
      "content-type": "application/json",
      "grpc-metadata-hasleader": "true", // a member that knows no leader answers so, at once
      ...(token !== undefined && { authorization: token }),
    }
    const response = await this.#connections.fetch(`${endpoint}${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      signal: AbortSignal.any([signal, this.#end.signal]),
    })
    if (response.status === 200) return response
    throw faultOfAnswer(response.status, await reasonOf(response))
  }

  /** The token of the user; one request for all that wait for it. */
  #tokenOf(endpoint: string): Promise<string | undefined> {
    if (this.#username === undefined) return Promise.resolve(undefined)
    if (this.#token !== undefined) return this.#token
    const token = this.#authenticate(endpoint, this.#username)
    this.#token = token
    token.catch(() => {
      if (this.#token === token) this.#token = undefined
    })
    return token
  }

  async #authenticate(endpoint: string, name: string): Promise<string | undefined> {
    try {
      const password = (await this.#password?.read())?.replace(/\r?\n$/, "") ?? ""
      const signal = AbortSignal.timeout(this.#requestMs)
      const answer = await this.#post(endpoint, "/v3/auth/authenticate", { name, password }, undefined, signal)
      return readToken(parseMessage(await answer.text()))
    } catch (error) {
      const fault = asFault(error, this.#requestMs)
      if (fault.message === "authentication is not enabled") return undefined
      // The request that needs the token has not been sent.
      const kind = fault.kind === "denied" ? "denied" : "not sent"
      throw new MemberFault(kind, `the user "${name}" gets no token: ${fault.message}`, fault)
    }
  }

  [Symbol.dispose](): void {
    this.#end.abort(new MemberFault("no answer", "the store was closed during the request"))
    this.#connections[Symbol.dispose]()
  }
}

/** etcd's words in an answer with an error status; `undefined` where there are none, such as in the page of a proxy. */
async function reasonOf(response: Response): Promise<string | undefined> {
  const body = await response.text()
  if (response.headers.get("content-type")?.startsWith("text/plain")) return body.trim().slice(0, 200)
  try {
    return errorText(parseMessage(body))
  } catch (error) {
    if (error instanceof WireFault) return undefined
    throw error
  }
}
