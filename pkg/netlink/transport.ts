import {
  close,
  type Fd,
  isErrno,
  leaveToKernel,
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
const SOL_NETLINK = 270
const NETLINK_CAP_ACK = 10
const NETLINK_EXT_ACK = 11
const NETLINK_GET_STRICT_CHK = 12

/** Carries datagrams between a `NetlinkSocket` and the kernel; in tests a script answers in the kernel's place. */
export interface Transport extends Disposable {
  readonly fd: Fd
  /** What the sequence numbers of requests begin behind. */
  readonly firstSequence: number
  /** Throws `SyscallError`. */
  send(datagram: Uint8Array): void
  /**
   * The next datagram, whole, in bytes that the next call overwrites. Throws `SyscallError`, `EAGAIN` after the timeout, and
   * `DecodeError` for a part of one.
   */
  receive(): Uint8Array
  /** How long `receive` waits from now on, more than 0. */
  setReceiveTimeout(timeoutMs: number): void
  /** Closes it without waiting for what the closing waits for. */
  leave(): void
}

/** A netlink socket of the operating system. */
export class KernelTransport implements Transport {
  readonly fd: Fd
  /** Not to be guessed, and with so much room above it that the numbers of no process come to their end. */
  readonly firstSequence = new DataView(randomBytes(4).buffer).getUint32(0) >>> 1
  readonly #sender = new NetlinkSender()
  #buffer = new Uint8Array(32_768)
  #open = true

  /** Opens a socket for `protocol` in the thread's namespace, joined to `groups`. Throws `SyscallError`. */
  constructor(protocol: number, groups = 0) {
    this.fd = openNetlink(protocol, groups)
    for (const option of [NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK]) this.#tryOption(option)
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

  /**
   * The buffer grows to what the kernel has, so that nothing is ever cut off. What another process has sent to this
   * socket, and with CAP_NET_ADMIN in the socket's namespace any may, is thrown away; it may be longer than memory.
   */
  receive(): Uint8Array {
    for (;;) {
      const waiting = receive(this.fd, this.#buffer, MSG_PEEK | MSG_TRUNC, this.#sender)
      const { isKernel } = this.#sender
      if (isKernel && waiting > this.#buffer.length) this.#buffer = new Uint8Array(waiting)
      const length = receive(this.fd, this.#buffer, 0, this.#sender)
      if (!isKernel) continue
      if (length < waiting) throw new DecodeError(`${length} of ${waiting} bytes came`)
      return this.#buffer.subarray(0, length)
    }
  }

  setReceiveTimeout(timeoutMs: number): void {
    setReceiveTimeout(this.fd, timeoutMs)
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
