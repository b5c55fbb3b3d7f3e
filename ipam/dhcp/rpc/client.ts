import { decodeLatin1, encodeUtf8, monotonicMs } from "../../../pkg/engine/mod.ts"
import { connectTo, type Fd, isErrno, Poll, poll, read, write } from "../../../pkg/libc/mod.ts"
import { findExposure } from "../../../pkg/records/mod.ts"
import { GobEncoder, GobError, type GobObject } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"
import {
  argumentType,
  type CallArguments,
  callTypes,
  encodeArguments,
  type Method,
  requestType,
  textOf,
} from "./messages.ts"

/** The first bytes of a client's connection in Go's net/rpc. */
const GREETING = "CONNECT /_goRPC_ HTTP/1.0\n\n"
const WELCOME = "200 Connected to Go RPC"
const HEADER_MAX = 8192

/** Thrown if no process listens at the path, or the daemon closed the connection. */
export class NoDaemonError extends Error {
  override readonly name = "NoDaemonError"
}

export class DaemonError extends Error {
  override readonly name = "DaemonError"
}

export interface Place {
  readonly socketPath: string
  readonly patienceMs: number
}

/** Calls a daemon's method, ours or upstream's. Throws `DaemonError` with the daemon's text, and `NoDaemonError`. */
export function callDaemon(place: Place, method: Method, call: CallArguments): GobObject {
  using connection = Connection.open(place)
  const encoder = new GobEncoder(callTypes)
  connection.write(encoder.encode(requestType, { ServiceMethod: `DHCP.${method}`, Seq: 0 }))
  connection.write(encoder.encode(argumentType, encodeArguments(call)))
  const response = connection.next()
  const reply = connection.next()
  const error = readable(() => textOf(response, "Error"))
  if (error !== "") throw new DaemonError(error)
  return reply
}

/** Calls `read` to decode an answer. Throws `DaemonError` if that fails. */
export function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof GobError) throw new DaemonError(`cannot read its answer: ${error.message}`)
    throw error
  }
}

/** Checks that a daemon answers. Throws `NoDaemonError`. */
export function requireDaemon(place: Place): void {
  Connection.open(place)[Symbol.dispose]()
}

class Connection implements Disposable {
  readonly #socket: { readonly fd: Fd } & Disposable
  readonly #place: Place
  readonly #deadline: number
  readonly #decoder = new GobDecoder()

  private constructor(socket: { readonly fd: Fd } & Disposable, place: Place) {
    this.#socket = socket
    this.#place = place
    this.#deadline = monotonicMs() + place.patienceMs
  }

  /** Connects, and reads the daemon's first bytes. Throws `NoDaemonError`. */
  static open(place: Place): Connection {
    const connection = new Connection(connect(place.socketPath), place)
    try {
      connection.write(encodeUtf8(GREETING))
      connection.#readWelcome()
      return connection
    } catch (error) {
      connection[Symbol.dispose]()
      throw error
    }
  }

  write(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      try {
        done += write(this.#socket.fd, bytes.subarray(done))
      } catch (error) {
        if (!isErrno(error, "EAGAIN")) throw this.#ended(error)
        this.#wait(Poll.Out)
      }
    }
  }

  /** Returns the next value of the daemon. Throws `NoDaemonError`. */
  next(): GobObject {
    for (;;) {
      const value = readable(() => this.#decoder.next())
      if (value) return value
      this.#decoder.push(this.#read())
    }
  }

  #readWelcome(): void {
    let header = ""
    for (;;) {
      const bytes = this.#read()
      header += decodeLatin1(bytes)
      const end = /\r?\n\r?\n/.exec(header)
      if (end) {
        if (!header.includes(WELCOME)) break
        this.#decoder.push(bytes.subarray(bytes.length - (header.length - end.index - end[0].length)))
        return
      }
      if (header.length > HEADER_MAX) break
    }
    throw new DaemonError(`"${this.#place.socketPath}" is not the socket of a DHCP daemon`)
  }

  #read(): Uint8Array {
    const buffer = new Uint8Array(65536)
    for (;;) {
      this.#wait(Poll.In)
      try {
        const length = read(this.#socket.fd, buffer)
        if (length > 0) return buffer.subarray(0, length)
      } catch (error) {
        if (isErrno(error, "EAGAIN")) continue
        throw this.#ended(error)
      }
      throw this.#ended()
    }
  }

  #wait(events: number): void {
    if (poll(this.#socket.fd, events, Math.max(0, this.#deadline - monotonicMs()))) return
    const { socketPath, patienceMs } = this.#place
    throw new NoDaemonError(`the daemon at "${socketPath}" did not answer within ${patienceMs / 1000} s`)
  }

  #ended(cause?: unknown): NoDaemonError {
    return new NoDaemonError(`the daemon at "${this.#place.socketPath}" exited before it answered`, { cause })
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]()
  }
}

/** Connects to a socket. Throws unless only root can have created it, because a daemon decides about routes. */
function connect(path: string) {
  const exposure = findExposure(path.slice(0, path.lastIndexOf("/") + 1))
  if (exposure !== undefined) throw new NoDaemonError(`cannot trust a DHCP daemon at "${path}": ${exposure}`)
  try {
    return connectTo(path)
  } catch (cause) {
    if (!isErrno(cause)) throw cause
    const { message } = cause
    const reason =
      { ENOENT: "the socket does not exist", ECONNREFUSED: "nothing listens there" }[cause.errno] ?? message
    throw new NoDaemonError(`no DHCP daemon at "${path}": ${reason}`, { cause })
  }
}
