import { monotonicMs } from "../../pkg/engine/mod.ts"
import { connectTo, isErrno, Poll, read, unlessErrno, write } from "../../pkg/libc/mod.ts"
import { ready } from "../../pkg/loop/mod.ts"
import { Exchange } from "./exchange.ts"
import { Http2Error } from "./frames.ts"

/** What may wait to be sent: a server that asks on and on, and reads no answer, has it full. */
const LARGEST_BACKLOG = 64 << 10
const PIECE = 64 << 10

/** A call: its path, "/runtime.v1.RuntimeService/Status", its message, and how long the whole of it may take. */
export interface UnaryCall {
  readonly path: string
  readonly message: Uint8Array
  readonly timeoutMs: number
}

/**
 * Makes one gRPC call over a Unix socket, on a new connection. Returns the answer's message; `undefined` when nothing
 * listens. Throws `GrpcError` for the server's error, `Http2Error` for a time-out or an invalid answer, and
 * `SyscallError`.
 */
export async function callOver(
  socket: string,
  { path, message, timeoutMs }: UnaryCall,
): Promise<Uint8Array | undefined> {
  const deadline = monotonicMs() + timeoutMs
  using connection = unlessErrno(() => connectTo(socket), "ENOENT", "ECONNREFUSED", "ENOTDIR", "ENOTSOCK")
  if (!connection) return undefined
  const { fd } = connection
  const exchange = new Exchange(path, message)
  const piece = new Uint8Array(PIECE)
  let unsent = exchange.opening
  for (;;) {
    const leftMs = deadline - monotonicMs()
    const isReady =
      leftMs > 0 && (await ready(fd, unsent.length > 0 ? Poll.In | Poll.Out : Poll.In, { timeoutMs: leftMs }))
    if (!isReady) throw new Http2Error(`no answer within ${timeoutMs} ms`)
    // A server may close the connection before it has read all, and what it has said before counts.
    if (unsent.length > 0)
      unsent = unsent.subarray(unlessErrno(() => write(fd, unsent), "EAGAIN", "EPIPE", "ECONNRESET") ?? 0)
    const count = receive(fd, piece)
    if (count === undefined) continue
    if (count === 0) throw exchange.ended()
    const reply = exchange.take(piece.subarray(0, count))
    const { answer } = exchange
    if (answer) return answer
    if (reply.length === 0) continue
    const both = new Uint8Array(unsent.length + reply.length)
    both.set(unsent)
    both.set(reply, unsent.length)
    if (both.length > LARGEST_BACKLOG) throw new Http2Error("it asks, and reads no answer")
    unsent = both
  }
}

/** Undefined when there is nothing yet, 0 at the end. */
function receive(fd: Parameters<typeof read>[0], into: Uint8Array): number | undefined {
  try {
    return read(fd, into)
  } catch (error) {
    if (isErrno(error, "ECONNRESET")) return 0
    if (isErrno(error, "EAGAIN")) return undefined
    throw error
  }
}
