import { engine } from "../engine/mod.ts"
import { close, type Fd, ioctl, Open } from "./descriptor.ts"
import { check, SyscallError } from "./errno.ts"
import { stat, statOpen } from "./stat.ts"

/** <sys/socket.h> */
export const AF_UNIX = 1
const AF_NETLINK = 16
export const SOCK_STREAM = 1
export const SOCK_DGRAM = 2
export const SOCK_RAW = 3
export const SOCK_NONBLOCK = Open.NonBlocking
export const SOCK_CLOEXEC = Open.CloseOnExec
export const SOL_SOCKET = 1
const SO_RCVTIMEO = 20
const SIOCGSKNS = 0x894c // <linux/sockios.h>
export const MSG_TRUNC = 0x20
export const MSG_PEEK = 2
export const MSG_DONTWAIT = 0x40

/**
 * Opens a netlink socket for a protocol (`NETLINK_ROUTE` 0, `NETLINK_NETFILTER` 12) in the thread's network namespace.
 * The kernel chooses its port. The socket joins the multicast `groups`. Throws `SyscallError`.
 */
export function openNetlink(protocol: number, groups = 0): Fd {
  const fd = check("socket", `netlink protocol ${protocol}`, () =>
    engine.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol),
  ) as Fd
  const address = new Uint32Array(3) // struct sockaddr_nl: family, port, groups as bits
  address[0] = AF_NETLINK
  address[2] = groups
  try {
    check("bind", `netlink protocol ${protocol}`, () => engine.bind(fd, address))
  } catch (error) {
    close(fd)
    throw error
  }
  return fd
}

/**
 * Reports whether a socket is in the thread's network namespace. Returns false also if the namespace is unknown:
 * without CAP_NET_ADMIN or /proc, and before Linux 4.10.
 */
export function isInOwnNamespace(socket: Fd): boolean {
  let namespace: Fd | undefined
  try {
    namespace = ioctl(socket, "SIOCGSKNS", SIOCGSKNS) as Fd
    return statOpen(namespace).inode === stat("/proc/thread-self/ns/net").inode
  } catch (error) {
    if (error instanceof SyscallError) return false
    throw error
  } finally {
    if (namespace !== undefined) close(namespace)
  }
}

/** Sets an integer option of a socket, like setsockopt(2). Throws `SyscallError`. */
export function setSocketOption(fd: Fd, level: number, option: number, value: number): void {
  const number = new Int32Array(1)
  number[0] = value
  check("setsockopt", `${level}/${option}`, () => engine.setsockopt(fd, level, option, number))
}

/** Sets the time limit of a receive, which then fails with `EAGAIN`. Throws `SyscallError`. */
export function setReceiveTimeout(fd: Fd, timeoutMs: number): void {
  const micros = Math.max(1, Math.ceil(timeoutMs * 1000)) // 0 would mean no limit
  // struct timeval: two numbers of 64 bits. The values fill their lower halves.
  const time = new Uint32Array([Math.floor(micros / 1_000_000), 0, micros % 1_000_000, 0])
  check("setsockopt", "SO_RCVTIMEO", () => engine.setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, time))
}

/** Sends one datagram to the kernel. Throws `SyscallError`. */
export function sendToKernel(fd: Fd, bytes: Uint8Array): void {
  check("sendto", "the kernel", () => engine.sendto(fd, bytes, 0))
}

/** The sender of a netlink datagram, which `receive` stores here. */
export class NetlinkSender {
  /** struct sockaddr_nl: family and padding, port, groups. */
  readonly address = new Uint32Array(3)

  /** Whether the sender is the kernel, the only one with port 0, netlink(7). */
  get isKernel(): boolean {
    return this.address[0] === AF_NETLINK && this.address[1] === 0
  }
}

/** Receives a datagram and returns its length; with `MSG_TRUNC` its whole length, even if longer than `into`. */
export function receive(fd: Fd, into: Uint8Array, flags: number, sender: NetlinkSender): number {
  return check("recv", { fd }, () => engine.recvfrom(fd, into, flags, sender.address))
}

/**
 * Closes a socket without waiting for the kernel's cleanup. Puts the socket into the queue of a socket pair to which
 * nothing else refers. The kernel's garbage collector finds the pair at once, and closes the socket in a kernel thread
 * (unix(7), SCM_RIGHTS). Kernels before 6.8 close it within this close(2), so no time is saved. Throws `SyscallError`;
 * the socket then is still open.
 */
export function leaveToKernel(fd: Fd): void {
  const pair = new Int32Array(2)
  check("socketpair", "AF_UNIX", () => engine.socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
  const [near, far] = pair as unknown as [Fd, Fd]
  try {
    check("sendmsg", "SCM_RIGHTS", () => engine.sendDescriptors(near, new Int32Array([fd, far])))
    close(fd) // before the collector closes the socket: the last close waits for the cleanup
  } finally {
    close(far)
    close(near) // this close starts the collector
  }
}
