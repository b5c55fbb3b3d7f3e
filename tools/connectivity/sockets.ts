import { engine, monotonicMs } from "../../pkg/engine/mod.ts"
import {
  errnoName,
  type Fd,
  FileDescriptor,
  Poll,
  poll,
  randomBytes,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  SyscallError,
  setSocketOption,
} from "../../pkg/libc/mod.ts"
import { every, sleep } from "../../pkg/loop/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET6, type Family, familyOf, sameBytes } from "../../pkg/types/mod.ts"
import { connectionError, isPending, reasonOf, socketAddress } from "../trace/mod.ts"

/** The timeout for an answer, and a signal that ends the wait early. */
export interface Patience {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** An address with a port. The port is 0 for protocols without ports. */
export interface Place {
  readonly ip: Uint8Array
  readonly port: number
}

/** The reason why a probe got no valid answer. Undefined for success. */
export type Failure = string | undefined

/** <sys/socket.h> */
const SO_REUSEADDR = 2
const IPPROTO_IPV6 = 41
const IPV6_V6ONLY = 26
const BACKLOG = 16
/** How often a datagram is sent before the timeout. */
const TRIES = 4

/** Calls `ask` until it returns an answer. Returns undefined at the timeout. Throws the signal's reason. */
export async function until<T>(ask: () => T | undefined, { timeoutMs, signal }: Patience): Promise<T | undefined> {
  const end = monotonicMs() + timeoutMs
  for (;;) {
    signal.throwIfAborted()
    const answer = ask()
    if (answer !== undefined) return answer
    if (monotonicMs() > end) return undefined
    await sleep(1, signal)
  }
}

export function noAnswer({ timeoutMs }: Patience): string {
  return `no answer in ${timeoutMs / 1000} s`
}

/** Opens a non-blocking socket in a namespace, and returns to the thread's own namespace. Throws `SyscallError`. */
export function openSocket(netns: Netns, family: Family, type: number, protocol = 0): FileDescriptor {
  const made = netns.run(() => engine.socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol))
  if (made < 0) throw new SyscallError("socket", -made, "in a namespace")
  return new FileDescriptor(made as Fd)
}

/** Returns the number of received bytes, or an errno. Returns undefined if no data has arrived. */
export function tryRead(fd: Fd, into: Uint8Array): number | { readonly errno: number } | undefined {
  const count = engine.read(fd, into)
  if (count >= 0) return count
  return errnoName(-count) === "EAGAIN" ? undefined : { errno: -count }
}

/** A TCP server that sends a secret to each client, so that the client knows which server answered. */
export class Server implements Disposable {
  readonly secret = randomBytes(8)
  readonly #socket: FileDescriptor
  readonly #timer: Disposable

  private constructor(socket: FileDescriptor) {
    this.#socket = socket
    this.#timer = every(1, () => this.#serve())
  }

  /** Listens on a port on all addresses of a namespace. Undefined if the port is in use. Throws `SyscallError`. */
  static listen(netns: Netns, family: Family, port: number): Server | undefined {
    const socket = openSocket(netns, family, SOCK_STREAM)
    setSocketOption(socket.fd, SOL_SOCKET, SO_REUSEADDR, 1)
    if (family === AF_INET6) setSocketOption(socket.fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)
    const any = { ip: new Uint8Array(family === AF_INET6 ? 16 : 4), port }
    const errno = -(engine.bind(socket.fd, socketAddress(any)) || engine.listen(socket.fd, BACKLOG))
    if (errno === 0) return new Server(socket)
    socket[Symbol.dispose]()
    if (errnoName(errno) === "EADDRINUSE") return undefined
    throw new SyscallError("bind", errno, `port ${port}`)
  }

  #serve(): void {
    for (;;) {
      const client = engine.accept4(this.#socket.fd, SOCK_NONBLOCK | SOCK_CLOEXEC)
      if (client < 0) return
      engine.write(client, this.secret)
      engine.close(client)
    }
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]()
    this.#socket[Symbol.dispose]()
  }
}

/**
 * Opens and closes a TCP connection from a namespace. If `secret` is given, the server must send it. Throws
 * `SyscallError`.
 */
export async function connectTcp(netns: Netns, to: Place, patience: Patience, secret?: Uint8Array): Promise<Failure> {
  using socket = openSocket(netns, familyOf(to.ip), SOCK_STREAM)
  const errno = -engine.connect(socket.fd, socketAddress(to))
  if (errno > 0 && !isPending(errno)) return reasonOf(errno)
  const isAnswered = await until(() => poll(socket.fd, Poll.Out, 0) || undefined, patience)
  if (!isAnswered) return noAnswer(patience)
  const error = connectionError(socket.fd, socketAddress(to))
  if (error !== 0) return reasonOf(error)
  if (secret === undefined) return undefined
  const said = new Uint8Array(secret.length)
  const count = await until(() => tryRead(socket.fd, said), patience)
  if (count === undefined) return `connected, and then ${noAnswer(patience)}`
  if (typeof count !== "number") return `connected, and then ${reasonOf(count.errno)}`
  return count === secret.length && sameBytes(said, secret) ? undefined : "another server answers at this address"
}

/** Sends a datagram until an answer arrives. Returns the result of `read`, or the reason for no valid answer. */
export async function askUdp<T extends object>(
  netns: Netns,
  to: Place,
  { question, read }: { question: Uint8Array; read: (answer: Uint8Array) => T | undefined },
  patience: Patience,
): Promise<T | string> {
  using socket = openSocket(netns, familyOf(to.ip), SOCK_DGRAM)
  const errno = -engine.connect(socket.fd, socketAddress(to))
  if (errno > 0) return reasonOf(errno)
  const into = new Uint8Array(4096)
  const ask = repeatedly(patience, () => engine.sendto(socket.fd, question, 0))
  const found = await until(() => {
    const refused = ask()
    if (refused !== undefined) return reasonOf(refused)
    const count = tryRead(socket.fd, into)
    if (count === undefined) return undefined
    return typeof count === "number" ? read(into.subarray(0, count)) : reasonOf(count.errno)
  }, patience)
  return found ?? noAnswer(patience)
}

/**
 * Returns a function for a loop: it calls `send` at once, and again at intervals until the timeout. It returns the
 * errno of the first attempt if that fails.
 */
export function repeatedly({ timeoutMs }: Patience, send: () => number): () => number | undefined {
  const startMs = monotonicMs()
  let sent = 0
  return () => {
    if (monotonicMs() - startMs < (sent * timeoutMs) / TRIES) return undefined
    const answer = send()
    sent++
    return answer < 0 && sent === 1 ? -answer : undefined
  }
}
