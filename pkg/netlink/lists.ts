import { isErrno } from "../libc/mod.ts"
import type { Budget } from "./budget.ts"
import type { Channel, Request } from "./channel.ts"
import { isLost } from "./lost-answers.ts"
import {
  type Acknowledgement,
  type Message,
  NetlinkError,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  readAcknowledgement,
  readAnswer,
  readDone,
} from "./message.ts"

/** The bytes of a list, some 160 elements of a set, beyond which opening another socket is faster than reading on. */
const ENOUGH_OF_A_LIST = 16 << 10

/** The number of attempts for a list that changes while it is read. */
const ATTEMPTS = 10

/** Reads lists (`NLM_F_DUMP`) on one socket. The kernel sends a list in several datagrams, and may interrupt it. */
export class Lists {
  readonly #channel: Channel
  readonly #budget: Budget | undefined

  constructor(channel: Channel, budget: Budget | undefined) {
    this.#channel = channel
    this.#budget = budget
  }

  /**
   * Ends a list of which only the first message is needed. The kernel starts no other list on a socket before the end
   * of this one, and produces another datagram of it at every recv(2). A list that does not end soon is therefore
   * abandoned together with its socket.
   */
  leave(first: Message, what: string): void {
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

  /** Returns the results of `pick` without undefined. Reads the list again if it has changed. Throws `NetlinkError`. */
  all<T>(request: Request, pick: (message: Message) => T | undefined, attempts = ATTEMPTS): T[] {
    for (let attempt = 1; ; attempt++) {
      const found = this.#allOrAgain(request, pick)
      if (found) return found
      if (attempt === attempts)
        throw new NetlinkError(request.what, "EINTR", "it kept changing while it was read", { willPass: true })
    }
  }

  /**
   * Reads the list once, and again after a lost answer. If the kernel is then still sending the first list, reads that
   * one to its end first, because the kernel starts no other before. The first list of a socket is sent in datagrams of
   * a page, in which a longer entry fails with `EMSGSIZE`. The next list is sent in datagrams as large as the buffer of
   * recv(2).
   */
  #allOrAgain<T>(request: Request, pick: (message: Message) => T | undefined): T[] | undefined {
    try {
      return this.#once(request, pick)
    } catch (error) {
      if (isErrno(error, "EMSGSIZE")) return this.#once(request, pick)
      if (!isErrno(error, "EBUSY") && !isLost(error)) throw error
    }
    try {
      return this.#once(request, pick)
    } catch (error) {
      // ENOBUFS: the end of the first list left no room in the socket for the beginning of this one. The kernel sends
      // it after the end of the first list has been read.
      if (!isErrno(error, "EBUSY", "ENOBUFS")) throw error
    }
    this.#readToTheEnd(request.what)
    return this.#once(request, pick)
  }

  #once<T>(request: Request, pick: (message: Message) => T | undefined): T[] | undefined {
    this.#budget?.stepOfList(request.what)
    const { isWide } = this.#channel
    const sequence = this.#channel.send([request], NLM_F_DUMP)
    const found: T[] = []
    let isEmpty = true
    let consistent = true
    for (; ; this.#budget?.stepOfList(request.what)) {
      const messages = this.#channel.receive(request.what, !request.isShort)
      const outcome = readAnswer(request.what, (): Acknowledgement | undefined => {
        for (const message of messages) {
          if (message.sequence !== sequence) continue
          if (message.flags & NLM_F_DUMP_INTR) consistent = false
          if (message.type === NLMSG_DONE) return readDone(message)
          if (message.type === NLMSG_ERROR) return readAcknowledgement(message)
          isEmpty = false
          const picked = pick(message)
          if (picked !== undefined) found.push(picked)
        }
        return undefined
      })
      if (outcome === undefined) continue
      const error = outcome.errno === 0 ? undefined : new NetlinkError(request.what, outcome.errno, outcome.extack)
      if (error && error.errno !== "EINTR") throw error
      // If the first entry is longer than the buffer, the kernel ends the list without an error. By now the buffer is
      // larger.
      if (isEmpty && !isWide && !request.isShort) return this.#once(request, pick)
      return consistent && !error ? found : undefined
    }
  }
}

export function isDone({ type }: Message): boolean {
  return type === NLMSG_DONE
}
