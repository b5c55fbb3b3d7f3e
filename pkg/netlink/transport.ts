import {
  close,
  type Fd,
  isErrno,
  isInOwnNamespace,
  leaveToKernel,
  MSG_DONTWAIT,
  MSG_PEEK,
  MSG_TRUNC,
  NetlinkSender,
  openNetlink,
  randomBytes,
  receive,
  SyscallError,
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

/** Carries datagrams between a `NetlinkSocket` and the kernel. In tests, a script replaces the kernel. */
export interface Transport extends Disposable {
  readonly fd: Fd
  /** The number before the sequence number of the first request. */
  readonly firstSequence: number
  /** Sends a datagram. Throws `SyscallError`. */
  send(datagram: Uint8Array): void
  /** Whether an entry may be longer than a page. If false, the kernel ends a list whose first entry is longer. */
  readonly isWide: boolean
  /**
   * Returns the next datagram. With `widen`, this one and all later ones may be longer than a page. Throws
   * `SyscallError`, `EAGAIN` if none has arrived, and `DecodeError` for an incomplete datagram.
   */
  receive(widen?: boolean): Uint8Array
  /** Like `receive`, but waits up to `timeoutMs`, which must be more than 0. */
  waitForNext(timeoutMs: number): Uint8Array
  /**
   * Replaces the socket with a new one for the same protocol in the same namespace, and discards the datagrams of the
   * old one. Returns false and changes nothing if that is impossible.
   */
  renew(): boolean
  /** Closes the socket without waiting for the kernel's cleanup. */
  leave(): void
}

/**
 * The receive buffer for all datagrams of the process; their bytes are copied from here. It is part of the heap image,
 * of which only written pages use memory. It is as large as the kernel's datagrams for lists; the kernel sends a larger
 * one only for a single large entry.
 */
const arrivals = new Uint8Array(32_768)
/** The first page of `arrivals`. The kernel fills it much faster if only the beginning of a list is needed. */
const page = arrivals.subarray(0, 4096)

/**
 * Returns the first receive buffer. A page is enough for the packet filter's answers, but not for a link's attributes.
 */
function roomFor(protocol: number): Uint8Array {
  return protocol === NETLINK_NETFILTER ? page : arrivals
}

export class KernelTransport implements Transport {
  readonly #protocol: number
  #fd: Fd
  /**
   * The number before the first sequence number. It is random, so that other processes cannot guess it, and small
   * enough that the sequence numbers of a process never overflow.
   */
  readonly firstSequence = new DataView(randomBytes(4).buffer).getUint32(0) >>> 1
  readonly #sender = new NetlinkSender()
  /** The receive buffer. The kernel makes a list's datagrams as large as the largest buffer ever used to read. */
  #room: Uint8Array
  /** Whether a datagram was larger than the buffer. */
  #hasLarge = false
  #open = true

  /** Opens a socket in the thread's namespace, and joins the multicast groups `groups`. Throws `SyscallError`. */
  constructor(protocol: number, groups = 0) {
    this.#protocol = protocol
    this.#fd = open(protocol, groups)
    this.#room = roomFor(protocol)
  }

  get fd(): Fd {
    return this.#fd
  }

  renew(): boolean {
    if (!isInOwnNamespace(this.#fd)) return false
    const former = this.#fd
    try {
      this.#fd = open(this.#protocol, 0)
    } catch (error) {
      if (error instanceof SyscallError) return false
      throw error
    }
    this.#room = roomFor(this.#protocol)
    leave(former)
    return true
  }

  send(datagram: Uint8Array): void {
    sendToKernel(this.#fd, datagram)
  }

  get isWide(): boolean {
    return this.#room === arrivals
  }

  receive(widen = false): Uint8Array {
    if (widen) this.#room = arrivals
    return this.#receive(MSG_DONTWAIT, this.#room)
  }

  waitForNext(timeoutMs: number): Uint8Array {
    setReceiveTimeout(this.#fd, timeoutMs)
    return this.#receive(0, this.#room)
  }

  /**
   * Receives a datagram that fits into the buffer, as nearly all do, in one call. A larger one is an error; from then
   * on the length of each datagram is read before the datagram. Datagrams of other processes are discarded: any process
   * with CAP_NET_ADMIN in the socket's namespace may send one, and it may be larger than memory.
   */
  #receive(flags: number, room: Uint8Array): Uint8Array {
    for (;;) {
      const into = this.#hasLarge ? this.#roomForNext(flags) : room
      const length = receive(this.#fd, into, flags | MSG_TRUNC, this.#sender)
      if (!this.#sender.isKernel) continue
      if (length <= into.length) return into.slice(0, length)
      this.#hasLarge = true
      throw new DecodeError(`received only ${into.length} of ${length} bytes`)
    }
  }

  #roomForNext(flags: number): Uint8Array {
    const waiting = receive(this.#fd, arrivals, flags | MSG_PEEK | MSG_TRUNC, this.#sender)
    return this.#sender.isKernel && waiting > arrivals.length ? new Uint8Array(waiting) : arrivals
  }

  leave(): void {
    if (this.#open) leave(this.#fd)
    this.#open = false
  }

  [Symbol.dispose](): void {
    if (this.#open) close(this.#fd)
    this.#open = false
  }
}

/** Opens a socket and asks the kernel for its most detailed answers. Throws `SyscallError`. */
function open(protocol: number, groups: number): Fd {
  const fd = openNetlink(protocol, groups)
  const strict = protocol === NETLINK_ROUTE ? [NETLINK_GET_STRICT_CHK] : []
  try {
    for (const option of [NETLINK_EXT_ACK, NETLINK_CAP_ACK, ...strict]) tryOption(fd, option)
    return fd
  } catch (error) {
    close(fd)
    throw error
  }
}

/** Sets a socket option unless the kernel is too old for it (`ENOPROTOOPT`). Such a kernel answers with less detail. */
function tryOption(fd: Fd, option: number): void {
  try {
    setSocketOption(fd, SOL_NETLINK, option, 1)
  } catch (error) {
    if (!isErrno(error, "ENOPROTOOPT", "EINVAL")) throw error
  }
}

function leave(fd: Fd): void {
  try {
    leaveToKernel(fd)
  } catch {
    close(fd) // fallback: close(2) waits for the kernel's cleanup
  }
}
