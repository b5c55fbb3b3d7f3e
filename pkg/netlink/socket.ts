import { type Fd, isErrno } from "../libc/mod.ts"
import type { Budget } from "./budget.ts"
import { Channel, type Request } from "./channel.ts"
import { isAlreadyDone, isLost, retryLostAnswer } from "./lost-answers.ts"
import {
  type Acknowledgement,
  type Message,
  NetlinkError,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  readAcknowledgement,
  readAnswer,
  readDone,
} from "./message.ts"
import { KernelTransport, type Transport } from "./transport.ts"

export { NETLINK_NETFILTER, NETLINK_ROUTE } from "./transport.ts"

/** More of a list than this costs more than another socket: some 160 elements of a set. */
const ENOUGH_OF_A_LIST = 16 << 10

/** A dump that changes under our hands is asked for again; a system that changes this often is not ours to wait for. */
const DUMP_ATTEMPTS = 10

/**
 * A netlink socket. It stays in the network namespace in which it was opened, also when the thread enters another. Requests are
 * answered one after the other, so one socket serves one caller.
 */
export class NetlinkSocket implements Disposable {
  readonly #channel: Channel
  readonly #budget: Budget | undefined

  /**
   * Opens a socket for `protocol` in the thread's namespace; with a budget where its lists and batches are of what a container can
   * multiply. Throws `SyscallError`.
   */
  constructor(
    protocol: number,
    groups = 0,
    transport: Transport = new KernelTransport(protocol, groups),
    budget?: Budget,
  ) {
    this.#channel = new Channel(transport)
    this.#budget = budget
  }

  get fd(): Fd {
    return this.#channel.fd
  }

  /**
   * Sends a request and waits until the kernel has done it. When the answer is lost, as for want of memory, it may have done it or
   * not: it is asked once more, and what is made or gone by then was done. Throws `NetlinkError`.
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

  /**
   * Sends a request that is answered with one message, again when the answer is lost, and returns what `read` makes of it. Throws
   * `NetlinkError`.
   */
  get<T>(request: Request, read: (message: Message) => T): T {
    const isList = (request.flags ?? 0) & NLM_F_DUMP // of which the caller wants the first message
    const answer = isList ? this.#askForBeginning(request) : retryLostAnswer(() => this.#ask(request))
    if ("payload" in answer) return readAnswer(request.what, () => read(answer))
    throw new NetlinkError(request.what, answer.errno, answer.extack)
  }

  /**
   * Like `get`, and undefined when the kernel refuses with this errno: that there is nothing is no failure. Nor is an
   * acknowledgement alone, where the request asks for one (`NLM_F_ACK`).
   */
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
    if ("payload" in answer && !hasEnded) this.#leaveList(answer, request.what)
    return answer
  }

  /**
   * Ends a list after its first message. The kernel begins no other list of a socket before the end of this one, and makes another
   * datagram of it at every receive. So a list that is not at its end soon, which may be long, is left with its socket.
   */
  #leaveList(first: Message, what: string): void {
    try {
      for (let bytes = first.payload.length; bytes < ENOUGH_OF_A_LIST; ) {
        const messages = this.#channel.receive(what)
        if (messages.some(isDone)) return
        for (const { payload } of messages) bytes += payload.length
      }
    } catch (error) {
      if (!isLost(error)) throw error
    }
    if (!this.#channel.renew()) this.#readToTheEnd(what)
  }

  #readToTheEnd(what: string): void {
    while (!this.#channel.receive(what).some(isDone)) {}
  }

  /** Sends a request, and returns the message that answers it. `look` sees the datagrams on the way to it. */
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
   * Asks for a list, and keeps what `pick` makes of its messages; undefined is passed over. One datagram is held at a time: a
   * list may be longer than memory, so `pick` takes what is wanted and no more. When the list changed while the kernel was
   * listing (`NLM_F_DUMP_INTR`, or `EINTR` from newer kernels), entries may be missing: it is asked for again, and what was
   * picked so far is thrown away, so `pick` is called for the entries of each attempt. Throws `NetlinkError`, `ETIME` when the
   * socket's budget is over before the list.
   */
  dump<T>(request: Request, pick: (message: Message) => T | undefined, attempts = DUMP_ATTEMPTS): T[] {
    return this.spend(() => this.#dump(request, pick, attempts))
  }

  #dump<T>(request: Request, pick: (message: Message) => T | undefined, attempts: number): T[] {
    for (let attempt = 1; ; attempt++) {
      const found = this.#dumpOrAgain(request, pick)
      if (found) return found
      if (attempt === attempts)
        throw new NetlinkError(request.what, "EINTR", "it kept changing while it was read", { willPass: true })
    }
  }

  /**
   * After a lost answer the kernel may be in the middle of the list, and begins no other before its end. For the first
   * list of a socket it has a page of room (`EMSGSIZE` for a longer entry), for the next one as much as was asked for by recv(2).
   */
  #dumpOrAgain<T>(request: Request, pick: (message: Message) => T | undefined): T[] | undefined {
    try {
      return this.#dumpOnce(request, pick)
    } catch (error) {
      if (isErrno(error, "EMSGSIZE")) return this.#dumpOnce(request, pick)
      if (!isErrno(error, "EBUSY") && !isLost(error)) throw error
    }
    try {
      return this.#dumpOnce(request, pick)
    } catch (error) {
      // ENOBUFS: the end of the first list took the room for the beginning of this one, which comes when that has been read.
      if (!isErrno(error, "EBUSY", "ENOBUFS")) throw error
    }
    this.#readToTheEnd(request.what)
    return this.#dumpOnce(request, pick)
  }

  #dumpOnce<T>(request: Request, pick: (message: Message) => T | undefined): T[] | undefined {
    this.#budget?.stepOfList(request.what)
    const { isWide } = this.#channel
    const sequence = this.#channel.send([request], NLM_F_DUMP)
    const found: T[] = []
    let isEmpty = true
    let consistent = true
    for (; ; this.#budget?.stepOfList(request.what)) {
      for (const message of this.#channel.receive(request.what, !request.isShort)) {
        if (message.sequence !== sequence) continue
        if (message.flags & NLM_F_DUMP_INTR) consistent = false
        if (message.type !== NLMSG_DONE && message.type !== NLMSG_ERROR) {
          isEmpty = false
          const picked = readAnswer(request.what, () => pick(message))
          if (picked !== undefined) found.push(picked)
          continue
        }
        const outcome = readAnswer(request.what, () =>
          message.type === NLMSG_DONE ? readDone(message) : readAcknowledgement(message),
        )
        const error = outcome.errno === 0 ? undefined : new NetlinkError(request.what, outcome.errno, outcome.extack)
        if (error && error.errno !== "EINTR") throw error
        // A first entry that is longer than the room for it ends the list in silence. By now there is more room.
        if (isEmpty && !isWide && !request.isShort) return this.#dumpOnce(request, pick)
        return consistent && !error ? found : undefined
      }
    }
  }

  /** Does work whose time is taken of the socket's budget, if it has one. */
  spend<T>(work: () => T): T {
    return this.#budget ? this.#budget.spend(work) : work()
  }

  /** To be called before each of many requests. Throws `NetlinkError`, `ETIME`, when nothing of the budget is left. */
  step(what: string): void {
    this.#budget?.step(what)
  }

  /**
   * Sends several messages in one datagram, as nf_tables' transactions need, and waits for the outcome of all.
   * Throws the first refusal as `NetlinkError`; the kernel has then done none of them, unless the error is one of a lost answer.
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
   * Sends requests in one datagram. Returns what waits for the next datagram of answers and reads it: which requests it is about, and
   * why they were refused. Throws `NetlinkError`.
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
   * Waits for the next datagram of the joined multicast groups. Undefined when `timeoutMs` is over first, and an empty
   * list when the kernel had to drop some (`ENOBUFS`): look at the state again in both cases.
   */
  nextEvents(timeoutMs: number): Message[] | undefined {
    return this.#channel.nextEvents(timeoutMs)
  }

  /**
   * Lets the kernel do the closing, in its own time: closing a socket of the packet filter waits until the kernel has
   * freed what was removed from nf_tables just before, for some 10 ms. The socket is of no use any more.
   */
  leave(): void {
    this.#channel.leave()
  }

  [Symbol.dispose](): void {
    this.#channel[Symbol.dispose]()
  }
}

function isDone({ type }: Message): boolean {
  return type === NLMSG_DONE
}
