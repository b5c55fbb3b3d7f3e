import {
  close,
  type Fd,
  isErrno,
  leaveToKernel,
  MSG_DONTWAIT,
  MSG_PEEK,
  MSG_TRUNC,
  NetlinkSender,
  openNetlink,
  randomBytes,
  receive,
  sendToKernel,
  setReceiveTimeout,
  setSocketOption,
} from "../libc/mod.ts"
import { DecodeError } from "./codec.ts"

/** <linux/netlink.h> */
export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12
const SOL_NETLINK = 270
const NETLINK_CAP_ACK = 10
const NETLINK_EXT_ACK = 11
const NETLINK_GET_STRICT_CHK = 12

/** Carries datagrams between a `NetlinkSocket` and the kernel; in tests a script answers in the kernel's place. */
export interface Transport extends Disposable {
  readonly fd: Fd
  /** The sequence number before the first request's. */
  readonly firstSequence: number
  /** Throws `SyscallError`. */
  send(datagram: Uint8Array): void
  /** The next datagram, whole. Throws `SyscallError`, `EAGAIN` when none is there, and `DecodeError` for a part of one. */
  receive(): Uint8Array
  /** Likewise, but waits for it so long, more than 0. */
  waitForNext(timeoutMs: number): Uint8Array
  /** Closes it without waiting for what the closing waits for. */
  leave(): void
}

/**
 * The buffer for every datagram of the process, before its bytes are copied. It lies in the process's image, of which only the pages that
 * are written to become memory of its own. As large as the datagrams of a list: the kernel makes none larger, but for a single entry
 * that is.
 */
const arrivals = new Uint8Array(32_768)

/** A netlink socket of the operating system. */
export class KernelTransport implements Transport {
  readonly fd: Fd
  /** Not to be guessed, and with so much room above it that the numbers of no process come to their end. */
  readonly firstSequence = new DataView(randomBytes(4).buffer).getUint32(0) >>> 1
  readonly #sender = new NetlinkSender()
  /** Whether something has come that was larger than `arrivals`. */
  #hasLarge = false
  #open = true

  /** Opens a socket for `protocol` in the thread's namespace, joined to `groups`. Throws `SyscallError`. */
  constructor(protocol: number, groups = 0) {
    this.fd = openNetlink(protocol, groups)
    this.#tryOption(NETLINK_EXT_ACK)
    this.#tryOption(NETLINK_CAP_ACK)
    if (protocol === NETLINK_ROUTE) this.#tryOption(NETLINK_GET_STRICT_CHK)
  }

  /** Kernels older than an option say `ENOPROTOOPT`, and answer with less detail. */
  #tryOption(option: number): void {
    try {
      setSocketOption(this.fd, SOL_NETLINK, option, 1)
    } catch (error) {
      if (isErrno(error, "ENOPROTOOPT", "EINVAL")) return
      close(this.fd)
      throw error
    }
  }

  send(datagram: Uint8Array): void {
    sendToKernel(this.fd, datagram)
  }

  receive(): Uint8Array {
    return this.#receive(MSG_DONTWAIT)
  }

  waitForNext(timeoutMs: number): Uint8Array {
    setReceiveTimeout(this.fd, timeoutMs)
    return this.#receive(0)
  }

  /**
   * One call for a datagram that fits, as nearly all do. A larger one is cut off: from then on each datagram's length is asked for
   * first, so that it comes whole when it is asked for again. A datagram that another process has sent to this socket, and with CAP_NET_ADMIN
   * in the socket's namespace any may, is thrown away; it may be longer than memory.
   */
  #receive(flags: number): Uint8Array {
    for (;;) {
      const into = this.#hasLarge ? this.#roomForNext(flags) : arrivals
      const length = receive(this.fd, into, flags | MSG_TRUNC, this.#sender)
      if (!this.#sender.isKernel) continue
      if (length <= into.length) return into.slice(0, length)
      this.#hasLarge = true
      throw new DecodeError(`${into.length} of ${length} bytes came`)
    }
  }

  #roomForNext(flags: number): Uint8Array {
    const waiting = receive(this.fd, arrivals, flags | MSG_PEEK | MSG_TRUNC, this.#sender)
    return this.#sender.isKernel && waiting > arrivals.length ? new Uint8Array(waiting) : arrivals
  }

  leave(): void {
    try {
      if (this.#open) leaveToKernel(this.fd)
      this.#open = false
    } catch {
      this[Symbol.dispose]() // then closing takes its time
    }
  }

  [Symbol.dispose](): void {
    if (this.#open) close(this.fd)
    this.#open = false
  }
}
