import { engine, monotonicMs } from "../../pkg/engine/mod.ts"
import {
  errnoName,
  errnoNumber,
  type Fd,
  FileDescriptor,
  Poll,
  poll,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  SyscallError,
} from "../../pkg/libc/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import type { Destination } from "../packets/mod.ts"

export interface Probed {
  readonly outcome: "connected" | "refused" | "no answer" | "unreachable"
  readonly ms: number
  /** The kernel's reason for a failed connection: "connect: Network is unreachable (ENETUNREACH)". */
  readonly reason?: string
}

/** The timeout of a probe in milliseconds. */
const PATIENCE_MS = 3000

/** <sys/socket.h> */
const SO_ERROR = 4
/** struct sockaddr_in6 */
const SOCKADDR_SIZE = 28

/**
 * Opens a TCP connection from the container's namespace and closes it. The outcome is "connected" only if the socket
 * has a peer. The outcome "refused" means that the other end answered, so the path works in both directions. Throws
 * `SyscallError` if no socket can be created.
 */
export function probe(sandbox: Netns, destination: Destination): Probed {
  const startMs = monotonicMs()
  const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC
  const made = sandbox.run(() => engine.socket(familyOf(destination.ip), type, 0)) // the socket stays in the container's namespace
  if (made < 0) throw new SyscallError("socket", -made, "in the container's namespace")
  using socket = new FileDescriptor(made as Fd)
  const errno = connect(socket.fd, socketAddress(destination))
  const ms = monotonicMs() - startMs
  if (errno === undefined) return { outcome: "no answer", ms }
  if (errno === 0) return { outcome: "connected", ms }
  return { outcome: outcomeOf(errno), ms, reason: reasonOf(errno) }
}

/** Returns the error of a connection attempt, 0 for success, or undefined without an answer. */
function connect(fd: Fd, address: Uint8Array): number | undefined {
  const errno = -engine.connect(fd, address)
  if (errno > 0 && !isPending(errno)) return errno
  if (errno > 0 && !poll(fd, Poll.Out, PATIENCE_MS)) return undefined
  return connectionError(fd, address)
}

/** Returns the error of a connection that was answered, or 0 for success. */
export function connectionError(fd: Fd, address: Uint8Array): number {
  const said = new Int32Array(1)
  engine.getsockopt(fd, SOL_SOCKET, SO_ERROR, said)
  if (said[0]) return said[0]
  // SO_ERROR is also 0 for a socket that never tried to connect, so a second connect must confirm the connection: it
  // fails on a connected socket.
  const errno = -engine.connect(fd, address)
  return errno === 0 || errno === errnoNumber("EISCONN") ? 0 : errnoNumber("ENOTCONN")
}

/** Reports whether the connection attempt continues after this error: EINPROGRESS, or EINTR from a signal. */
export function isPending(errno: number): boolean {
  return errno === errnoNumber("EINPROGRESS") || errno === errnoNumber("EINTR")
}

/** Returns the reason for a failed connection. Describes errors whose names do not tell the cause. */
export function reasonOf(errno: number): string {
  const said = new SyscallError("connect", errno).message
  const type = { EINVAL: "blackhole", EACCES: "prohibit" }[errnoName(errno) ?? ""]
  return type === undefined ? said : `a route or rule of type ${type} matches it: ${said}`
}

/** Returns what an error of connect(2) means for the path. */
export function outcomeOf(errno: number): Exclude<Probed["outcome"], "connected"> {
  const name = errnoName(errno)
  if (name === "ECONNREFUSED" || name === "ECONNRESET") return "refused"
  return name === "ETIMEDOUT" ? "no answer" : "unreachable"
}

/** Returns the address as struct sockaddr_in or sockaddr_in6, <netinet/in.h>. */
export function socketAddress({ ip, port }: Pick<Destination, "ip" | "port">): Uint8Array {
  const isIpv4 = familyOf(ip) === AF_INET
  const address = new Uint8Array(isIpv4 ? 16 : SOCKADDR_SIZE)
  const view = new DataView(address.buffer)
  view.setUint16(0, familyOf(ip), true)
  view.setUint16(2, port)
  address.set(ip, isIpv4 ? 4 : 8)
  return address
}
