import {
  acceptConnection,
  bootMs,
  type Fd,
  type FileDescriptor,
  isErrno,
  Poll,
  type PollRequest,
  read,
  write,
} from "../../../pkg/libc/mod.ts"
import { concat } from "../../../pkg/netlink/mod.ts"
import { messageOf } from "../../../pkg/types/mod.ts"
import { GobError } from "../rpc/gob.ts"
import { emptyType, encodeReply, resultType } from "../rpc/messages.ts"
import { type IncomingCall, RpcSession, rejection } from "../rpc/serve.ts"
import type { Waiter } from "./environment.ts"
import type { Holder } from "./holder.ts"
import { Refusal, type Service } from "./service.ts"

/** The maximum number of open connections. A caller that sends nothing keeps its connection open. */
const SESSIONS_MAX = 4096
/** The pause after accept(2) has failed for lack of descriptors or memory. */
const PAUSE_MS = 1_000

interface Session {
  readonly socket: FileDescriptor
  readonly rpc: RpcSession
  /** The bytes that have not been written yet. */
  out: Uint8Array
  /** Whether the connection is closed once `out` is written. */
  isEnding: boolean
  readonly waiting: Map<Waiter, Holder>
}

/** The connections of plugins. Their calls are passed to the service, and its answers are sent. */
export class Sessions {
  readonly #sessions = new Map<Fd, Session>()
  readonly #service: Service
  readonly #log: (line: string) => void
  /** Called with a holder after its deadline may have changed. */
  readonly #touch: (holder: Holder) => void
  #acceptsAt: number | undefined

  constructor(service: Service, log: (line: string) => void, touch: (holder: Holder) => void) {
    this.#service = service
    this.#log = log
    this.#touch = touch
  }

  /**
   * The end of the pause after a failed accept(2), by the clock of `bootMs`; undefined without a pause. Do not poll the
   * listening socket during a pause, because poll(2) would report the waiting connections all the time.
   */
  get acceptsAt(): number | undefined {
    return this.#acceptsAt
  }

  get requests(): PollRequest[] {
    return [...this.#sessions].map(([fd, { out }]) => ({ fd, events: out.length > 0 ? Poll.In | Poll.Out : Poll.In }))
  }

  accept(server: Fd): void {
    this.#acceptsAt = undefined
    try {
      const socket = acceptConnection(server)
      const session = { socket, rpc: new RpcSession(), out: new Uint8Array(), isEnding: false, waiting: new Map() }
      if (this.#sessions.size < SESSIONS_MAX) this.#sessions.set(socket.fd, session)
      else socket[Symbol.dispose]()
    } catch (error) {
      if (isErrno(error, "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM")) this.#acceptsAt = bootMs() + PAUSE_MS
      else if (!isErrno(error, "EAGAIN", "ECONNABORTED")) throw error
    }
  }

  /** Reads from and writes to a ready descriptor. Returns false if it is not the socket of a session. */
  serve(fd: Fd, buffer: Uint8Array): boolean {
    const session = this.#sessions.get(fd)
    if (!session) return false
    this.#flush(session)
    if (!this.#sessions.has(fd)) return true
    const bytes = this.#read(session, buffer)
    if (bytes === undefined) return true
    if (bytes.length === 0) this.#end(session)
    else this.#take(session, bytes)
    return true
  }

  /** Returns the received bytes: `undefined` if none have arrived, empty if the peer has closed the connection. */
  #read({ socket }: Session, buffer: Uint8Array): Uint8Array | undefined {
    try {
      return buffer.subarray(0, read(socket.fd, buffer))
    } catch (error) {
      return isErrno(error, "EAGAIN") ? undefined : new Uint8Array()
    }
  }

  #take(session: Session, bytes: Uint8Array): void {
    try {
      const { calls, send } = session.rpc.receive(bytes)
      this.#send(session, send)
      for (const call of calls) this.#dispatch(session, call)
    } catch (error) {
      if (!(error instanceof GobError)) throw error
      session.isEnding = true
      this.#send(session, rejection())
    }
  }

  #dispatch(session: Session, incoming: IncomingCall): void {
    const { method, call } = incoming
    try {
      if (method === "DHCP.Allocate") {
        this.#allocate(session, incoming)
        return
      }
      if (method === "DHCP.Release") this.#service.release(call)
      else if (method === "DHCP.Check") this.#service.check(call)
      else if (method === "DHCP.Collect") this.#service.collect(call)
      else throw new Refusal(`rpc: can't find method ${method}`)
      this.#send(session, session.rpc.reply(incoming, emptyType, {}))
    } catch (error) {
      if (!(error instanceof Refusal)) this.#log(`${method} of ${call.containerId}: ${String(error)}`)
      this.#send(session, session.rpc.refuse(incoming, messageOf(error)))
    }
  }

  #allocate(session: Session, incoming: IncomingCall): void {
    const waiter: Waiter = {
      answer: (result) => {
        session.waiting.delete(waiter)
        this.#send(session, session.rpc.reply(incoming, resultType, encodeReply(result)))
      },
      refuse: (reason) => {
        session.waiting.delete(waiter)
        this.#send(session, session.rpc.refuse(incoming, reason))
      },
    }
    const holder = this.#service.allocate(incoming.call, waiter)
    if (!holder) return
    session.waiting.set(waiter, holder)
    this.#touch(holder)
  }

  #send(session: Session, bytes: Uint8Array): void {
    if (!this.#sessions.has(session.socket.fd)) return
    session.out = concat([session.out, bytes])
    this.#flush(session)
  }

  #flush(session: Session): void {
    try {
      while (session.out.length > 0) session.out = session.out.slice(write(session.socket.fd, session.out))
      if (session.isEnding) this.#end(session)
    } catch (error) {
      if (!isErrno(error, "EAGAIN")) this.#end(session)
    }
  }

  /** Closes a connection. Releases the leases for which only calls of this connection waited. */
  #end(session: Session): void {
    if (!this.#sessions.delete(session.socket.fd)) return
    session.socket[Symbol.dispose]()
    this.#acceptsAt = undefined
    for (const [waiter, holder] of session.waiting) this.#service.abandon(holder, waiter)
    session.waiting.clear()
  }
}
