import type { Fd } from "../libc/mod.ts"
import type { Budget } from "./budget.ts"
import { Channel, type Request } from "./channel.ts"
import { isDone, Lists } from "./lists.ts"
import { isAlreadyDone, isLost, retryLostAnswer } from "./lost-answers.ts"
import {
  type Acknowledgement,
  type Message,
  NetlinkError,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLMSG_ERROR,
  readAcknowledgement,
  readAnswer,
} from "./message.ts"
import { KernelTransport, type Transport } from "./transport.ts"

export { NETLINK_NETFILTER, NETLINK_ROUTE } from "./transport.ts"

/**
 * A netlink socket. It stays in the network namespace in which it was opened, even if the thread enters another. It
 * handles one request at a time, so one socket serves one caller.
 */
export class NetlinkSocket implements Disposable {
  readonly #channel: Channel
  readonly #lists: Lists
  readonly #budget: Budget | undefined

  /**
   * Opens a socket for `protocol` in the thread's namespace. A socket for lists and batches of objects that a container
   * can multiply needs a budget. Throws `SyscallError`.
   */
  constructor(
    protocol: number,
    groups = 0,
    transport: Transport = new KernelTransport(protocol, groups),
    budget?: Budget,
  ) {
    this.#channel = new Channel(transport)
    this.#lists = new Lists(this.#channel, budget)
    this.#budget = budget
  }

  get fd(): Fd {
    return this.#channel.fd
  }

  /**
   * Sends a request and waits until the kernel has executed it. If the answer is lost, for example for lack of memory,
   * sends the request once more; `EEXIST` or "not found" then means that the first copy was executed. Throws
   * `NetlinkError`.
   */
  execute(request: Request): void {
    try {
      this.#execute(request)
    } catch (error) {
      if (!isLost(error)) throw error
      try {
        this.#execute(request)
      } catch (second) {
        if (!isAlreadyDone(request, second)) throw second
      }
    }
  }

  #execute(request: Request): void {
    const sequence = this.#channel.send([request], NLM_F_ACK)
    for (;;) {
      for (const message of this.#channel.receive(request.what)) {
        if (message.sequence !== sequence || message.type !== NLMSG_ERROR) continue
        const { errno, extack } = readAnswer(request.what, () => readAcknowledgement(message))
        if (errno !== 0) throw new NetlinkError(request.what, errno, extack)
        return
      }
    }
  }

  /** Sends a request, again if the answer is lost. Returns the result of `read`. Throws `NetlinkError`. */
  get<T>(request: Request, read: (message: Message) => T): T {
    const isList = (request.flags ?? 0) & NLM_F_DUMP // the caller needs only the first message of the list
    const answer = isList ? this.#askForBeginning(request) : retryLostAnswer(() => this.#ask(request))
    if ("payload" in answer) return readAnswer(request.what, () => read(answer))
    throw new NetlinkError(request.what, answer.errno, answer.extack)
  }

  /** Like `get`; `undefined` for the errno `nothing`, or, with `NLM_F_ACK`, for an acknowledgement alone. */
  find<T>(request: Request, nothing: number, read: (message: Message) => T): T | undefined {
    const answer = retryLostAnswer(() => this.#ask(request))
    if ("payload" in answer) return readAnswer(request.what, () => read(answer))
    if (answer.errno === nothing || answer.errno === 0) return undefined
    throw new NetlinkError(request.what, answer.errno, answer.extack)
  }

  #askForBeginning(request: Request): Message | Acknowledgement {
    let hasEnded = false
    const answer = this.#ask(request, (datagram) => {
      hasEnded = datagram.some(isDone)
    })
    if ("payload" in answer && !hasEnded) this.#lists.leave(answer, request.what)
    return answer
  }

  /** Sends a request and returns its answer. Calls `look` with each datagram up to the one with the answer. */
  #ask(request: Request, look?: (datagram: readonly Message[]) => void): Message | Acknowledgement {
    const sequence = this.#channel.send([request])
    for (;;) {
      const datagram = this.#channel.receive(request.what)
      look?.(datagram)
      for (const message of datagram) {
        if (message.sequence !== sequence) continue
        if (message.type !== NLMSG_ERROR) return message
        const outcome = readAnswer(request.what, () => readAcknowledgement(message))
        if (outcome.errno !== 0 || (request.flags ?? 0) & NLM_F_ACK) return outcome
      }
    }
  }

  /**
   * Requests a list and returns the results of `pick` for its messages, without undefined. A list may be larger than
   * memory: only one datagram is held at a time, and `pick` should keep only the wanted values. If the list changed
   * while the kernel was listing (`NLM_F_DUMP_INTR`, or `EINTR` from newer kernels), entries may be missing. The
   * results are then discarded and the list is requested again, so `pick` is called for the entries of each attempt.
   * Throws `NetlinkError`, `ETIME` if the socket's budget ends before the list.
   */
  dump<T>(request: Request, pick: (message: Message) => T | undefined, attempts?: number): T[] {
    return this.spend(() => this.#lists.all(request, pick, attempts))
  }

  /** Calls `work` and counts its time against the socket's budget, if it has one. */
  spend<T>(work: () => T): T {
    return this.#budget ? this.#budget.spend(work) : work()
  }

  /** Must be called before each of many requests. Throws `NetlinkError`, `ETIME`, if the budget is used up. */
  step(what: string): void {
    this.#budget?.step(what)
  }

  /**
   * Sends several messages in one datagram, as transactions of nf_tables require, and waits for all outcomes. Throws
   * the first refusal as `NetlinkError`. The kernel then has changed nothing, unless the error is a lost answer.
   */
  transact(requests: readonly Request[]): void {
    const pending = new Set<Request>(requests.filter(({ flags = 0 }) => flags & NLM_F_ACK))
    const answers = this.sendAll(requests)
    while (pending.size > 0) {
      for (const { request, refusal } of answers()) {
        if (refusal) throw refusal
        pending.delete(request)
      }
    }
  }

  /**
   * Sends requests in one datagram. Returns a function that waits for the next datagram of answers, and returns the
   * answered requests, each with the refusal if the kernel refused it. Throws `NetlinkError`.
   */
  sendAll<R extends Request>(requests: readonly R[]): () => { request: R; refusal: NetlinkError | undefined }[] {
    const first = this.#channel.send(requests)
    const what = requests[0]?.what ?? "nothing"
    return () =>
      this.#channel.receive(what).flatMap((message) => {
        const request = requests[message.sequence - first]
        if (message.type !== NLMSG_ERROR || !request) return []
        const { errno, extack } = readAnswer(request.what, () => readAcknowledgement(message))
        return { request, refusal: errno === 0 ? undefined : new NetlinkError(request.what, errno, extack) }
      })
  }

  /**
   * Waits for the next datagram of the joined multicast groups. Returns undefined after `timeoutMs`, and an empty list
   * if the kernel dropped events (`ENOBUFS`). In both cases the caller must read the state again.
   */
  nextEvents(timeoutMs: number): Message[] | undefined {
    return this.#channel.nextEvents(timeoutMs)
  }

  /** Like `nextEvents`, but `undefined` at once without an event: for a process that waits on several descriptors. */
  takeEvents(): Message[] | undefined {
    return this.#channel.takeEvents()
  }

  /**
   * Lets the kernel close the socket in the background. Closing a socket of the packet filter otherwise takes some 10
   * ms, until the kernel has freed the objects just deleted from nf_tables. The socket cannot be used afterwards.
   */
  leave(): void {
    this.#channel.leave()
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]()
  }
}
