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
  /** The verb and the object for error messages: `create link "eth0"`. */
  what: string
  /** Whether the request is for a list in which no entry is longer than a page. */
  isShort?: true
}

/** Sends and receives datagrams of messages. Numbers the requests, and reports lost answers. */
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
   * Sends requests in one datagram, each with the flags `extra`. Returns the sequence number of the first; the numbers
   * of the others follow. Throws `NetlinkError` if the datagram was not sent.
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
   * Returns the messages of the next datagram of answers; `what` names the request in errors. The kernel executes and
   * answers a request before send(2) returns, so an answer that is not there yet is lost. With `widen`, later datagrams
   * may be longer than a page. Throws `NetlinkError` for a lost answer.
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
   * Waits for the next datagram of the joined multicast groups. Returns undefined after `timeoutMs`, and an empty list
   * if the kernel dropped events (`ENOBUFS`). In both cases the caller must read the state again.
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
   * Returns the next received datagram of the joined multicast groups. Returns `undefined` if none has arrived, and an
   * empty list if the kernel dropped events (`ENOBUFS`) or the datagram is malformed.
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

  /** Replaces the socket, and discards data still queued on the old one. Returns false if that is impossible. */
  renew(): boolean {
    return this.#transport.renew()
  }

  /** Closes the socket without waiting for the kernel's cleanup. */
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
