import { dlopen, ptr } from "bun:ffi"
import { engine } from "../../../pkg/engine/mod.ts"
import { errnoName, type Fd, FileDescriptor, Poll, poll, SyscallError } from "../../../pkg/libc/mod.ts"
import type { Netns } from "../../../pkg/netns/mod.ts"
import { AF_INET, familyOf } from "../../../pkg/types/mod.ts"
import type { Destination } from "./walk.ts"

/** What came of a probe. */
export interface Probed {
  readonly outcome: "connected" | "refused" | "no answer" | "unreachable"
  readonly ms: number
}

/** How long an answer may take. */
const PATIENCE_MS = 3000

/** <sys/socket.h> */
const SOCK_STREAM = 1
const SOCK_NONBLOCK = 0o4000
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_ERROR = 4

/**
 * Begins a TCP connection from the container's namespace and closes it. "refused" proves the way there and back: the other end
 * has said so. Throws `SyscallError` when no socket can be made.
 */
export function probe(sandbox: Netns, destination: Destination): Probed {
  const startMs = performance.now()
  const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC
  const made = sandbox.run(() => engine.socket(familyOf(destination.ip), type, 0)) // it stays in that namespace
  if (made < 0) throw new SyscallError("socket", -made, "in the container's namespace")
  using socket = new FileDescriptor(made as Fd)
  const { connect, getsockopt } = libc()
  const address = addressOf(destination)
  const said = new Int32Array(1)
  const length = new Uint32Array([4])
  const ended = () => performance.now() - startMs
  const isAnswered = connect(socket.fd, ptr(address), address.length) === 0 || poll(socket.fd, Poll.Out, PATIENCE_MS)
  if (!isAnswered) return { outcome: "no answer", ms: ended() }
  getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, ptr(said), ptr(length))
  return { outcome: outcomeOf(said[0] ?? 0), ms: ended() }
}

function outcomeOf(error: number): Probed["outcome"] {
  if (error === 0) return "connected"
  const name = errnoName(error)
  if (name === "ECONNREFUSED") return "refused"
  return name === "ETIMEDOUT" ? "no answer" : "unreachable"
}

/** The two calls that no plugin needs. */
function libc() {
  return dlopen("libc.so.6", {
    connect: { args: ["i32", "ptr", "u32"], returns: "i32" },
    getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  }).symbols
}

/** struct sockaddr_in and sockaddr_in6, <netinet/in.h>. */
function addressOf({ ip, port }: Destination): Uint8Array {
  const isIpv4 = familyOf(ip) === AF_INET
  const address = new Uint8Array(isIpv4 ? 16 : 28)
  const view = new DataView(address.buffer)
  view.setUint16(0, familyOf(ip), true)
  view.setUint16(2, port)
  address.set(ip, isIpv4 ? 4 : 8)
  return address
}
