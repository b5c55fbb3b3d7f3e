import { type Fd, isErrno, SyscallError } from "../libc/mod.ts"
import { DecodeError } from "./codec.ts"
import { lost } from "./lost-answers.ts"
import { appendMessage, type Message, NetlinkError, NLM_F_REQUEST, NLMSG_OVERRUN, readMessages } from "./message.ts"
import { encoded, type Output } from "./output.ts"
import type { Transport } from "./transport.ts"

/** One request: a message type, its flags in addition to `NLM_F_REQUEST`, and the bytes after the header. */
export interface Request {
  type: number
  flags?: number
  payload: Uint8Array
  /** The verb and object of its error: `create link "eth0"`. */
  what: string
  /** For a list: no entry of it is longer than a page. */
  isShort?: true
}

/** Datagrams of messages to the kernel and back: numbers what goes, and says of what cannot come that it is lost. */
export class Channel implements Disposable {
  readonly #transport: Transport
  #sequence: number

  constructor(transport: Transport) {
    this.#transport = transport
    this.#sequence = transport.firstSequence
  }

  get fd(): Fd {
    return this.#transport.fd
  }

  /**
   * Sends requests in one datagram, with `extra` flags. Returns the number of the first; the others follow it. Throws
   * `NetlinkError`, and then none was sent.
   */
  send(requests: readonly Request[], extra = 0): number {
    const first = this.#sequence + 1
    this.#sequence += requests.length
    const append = (all: readonly Request[], to: Output) => {
      let sequence = first
      for (const { type, flags = 0, payload } of all)
        appendMessage({ type, flags: flags | extra | NLM_F_REQUEST, sequence: sequence++, payload }, to)
    }
    try {
      this.#transport.send(encoded(append, requests))
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      throw new NetlinkError(requests[0]?.what ?? "nothing", error.errno, "the request cannot be sent")
    }
    return first
  }

  /**
   * The messages of the next datagram of answers, `what` for the error. The kernel does a request, and answers it, within the very call
   * that sends it: an answer that is not there never comes. With `widen` the datagrams after it may be long. Throws `NetlinkError`, that
   * they are lost.
   */
  receive(what: string, widen = false): Message[] {
    try {
      return read(this.#transport.receive(widen), what)
    } catch (error) {
      if (error instanceof SyscallError) throw new NetlinkError(what, error.errno, undefined, lost)
      if (error instanceof DecodeError)
        throw new NetlinkError(what, "EBADMSG", `the kernel's answer cannot be read: ${error.message}`, lost)
      throw error
    }
  }

  /**
   * Waits for the next datagram of the joined multicast groups. Undefined when `timeoutMs` is over first, and an empty
   * list when the kernel had to drop some (`ENOBUFS`): look at the state again in both cases.
   */
  nextEvents(timeoutMs: number): Message[] | undefined {
    try {
      return read(this.#transport.waitForNext(Math.max(1, timeoutMs)), "an event")
    } catch (error) {
      if (isErrno(error, "EAGAIN")) return undefined
      if (isErrno(error, "ENOBUFS")) return []
      throw error
    }
  }

  /**
   * Returns the next received datagram of the joined multicast groups. `undefined` when no datagram waits, and an empty
   * list when the kernel has dropped some (`ENOBUFS`) or one cannot be read.
   */
  takeEvents(): Message[] | undefined {
    try {
      return read(this.#transport.receive(true), "an event")
    } catch (error) {
      if (isErrno(error, "EAGAIN")) return undefined
      if (isErrno(error, "ENOBUFS") || error instanceof DecodeError) return []
      throw error
    }
  }

  /** Whether an entry of a list may be longer than a page. */
  get isWide(): boolean {
    return this.#transport.isWide
  }

  /** Leaves what is still to be received, by another socket; false where that cannot be done. */
  renew(): boolean {
    return this.#transport.renew()
  }

  /** Closes it without waiting for what the closing waits for. */
  leave(): void {
    this.#transport.leave()
  }

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]()
  }
}

function read(datagram: Uint8Array, what: string): Message[] {
  const messages = readMessages(datagram)
  for (const { type } of messages) if (type === NLMSG_OVERRUN) throw new NetlinkError(what, "ENOBUFS", undefined, lost)
  return messages
}
