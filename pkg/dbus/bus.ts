import { decodeUtf8, encodeUtf8, monotonicMs } from "../engine/mod.ts"
import {
  connectTo,
  type Fd,
  type FileDescriptor,
  isErrno,
  Poll,
  poll,
  read,
  readEnvironment,
  write,
} from "../libc/mod.ts"
import {
  DbusError,
  decodeMessage,
  encodeCall,
  type Message,
  MessageType,
  type MethodCall,
  messageLength,
  PREAMBLE_SIZE,
  type Value,
} from "./message.ts"

/** The address of the system bus, unless `DBUS_SYSTEM_BUS_ADDRESS` is set. */
const SYSTEM_BUS = "unix:path=/var/run/dbus/system_bus_socket"

const DAEMON = { destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" }

/** The time limit for all calls of a connection together: the default limit of D-Bus programs for a single answer. */
const PATIENCE_MS = 25_000
/** The maximum length of a line during authentication. */
const LINE_MAX = 4096

/**
 * A connection to a bus according to D-Bus Specification 0.38. It uses a socket at a path and authenticates as the user
 * of the process. It makes one method call at a time, and receives signals; other messages are skipped. If an answer
 * does not arrive in time or cannot be decoded, all later calls fail at once.
 *
 * @example
 * using bus = Bus.findSystem()
 * if (bus?.hasOwner("org.fedoraproject.FirewallD1")) bus.call({ destination: "org.fedoraproject.FirewallD1", … })
 */
export class Bus implements Disposable {
  readonly #socket: FileDescriptor
  readonly #patienceMs: number
  readonly #deadline: number
  /** The error that prevents further calls. */
  #broken: unknown
  #received = new Uint8Array(0)
  #serial = 0

  private constructor(socket: FileDescriptor, patienceMs: number) {
    this.#socket = socket
    this.#patienceMs = patienceMs
    this.#deadline = monotonicMs() + patienceMs
  }

  /** Connects to the system bus. Returns `undefined` if none exists. Throws `DbusError` if the bus refuses. */
  static findSystem(patienceMs = PATIENCE_MS): Bus | undefined {
    const address = readEnvironment().DBUS_SYSTEM_BUS_ADDRESS || SYSTEM_BUS
    for (const path of pathsIn(address)) {
      const bus = Bus.find(path, patienceMs)
      if (bus) return bus
    }
    return undefined
  }

  /** Connects to the bus at a path. Returns undefined if no process listens. Throws `DbusError` if the bus refuses. */
  static find(path: string, patienceMs = PATIENCE_MS): Bus | undefined {
    let bus: Bus | undefined
    try {
      bus = new Bus(connectTo(path), patienceMs)
      bus.#authenticate()
      bus.call({ ...DAEMON, member: "Hello", args: [] })
      return bus
    } catch (error) {
      bus?.[Symbol.dispose]()
      if (isErrno(error, "ENOENT", "ECONNREFUSED", "ENOTDIR", "EACCES")) return undefined
      throw error
    }
  }

  /** Authenticates by "EXTERNAL" without a name: the bus gets the user from the socket, unix(7) `SO_PEERCRED`. */
  #authenticate(): void {
    this.#send(encodeUtf8("\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n"))
    const lines = [this.#readLine(), this.#readLine()]
    if (lines[0] === "DATA" && lines[1]?.startsWith("OK ")) return
    throw new DbusError(`Cannot authenticate at the system bus: it answered "${lines.join('", "')}"`)
  }

  /** Reports whether a program owns `name` on the bus, which means that the program runs. Throws `DbusError`. */
  hasOwner(name: string): boolean {
    return this.call({ ...DAEMON, member: "NameHasOwner", args: [name] })[0] === true
  }

  /**
   * Returns the unique name of the owner of `name` on the bus; undefined if `name` has no owner. Throws `DbusError`.
   */
  findOwner(name: string): string | undefined {
    if (!this.hasOwner(name)) return undefined
    return String(this.call({ ...DAEMON, member: "GetNameOwner", args: [name] })[0])
  }

  /** Calls a method and returns the values of its answer. Throws `DbusError` for the method's error or a timeout. */
  call(call: MethodCall): Value[] {
    const answer = this.#exchange(call)
    if (answer.type === MessageType.Return) return answer.body
    const [text] = answer.body
    const said = (typeof text === "string" && text) || answer.errorName || "the answer has neither a value nor an error"
    throw new DbusError(said, answer.errorName)
  }

  get fd(): Fd {
    return this.#socket.fd
  }

  /** Subscribes to signals by a rule such as "type='signal',member='Reloaded'". Throws `DbusError`. */
  subscribe(rule: string): void {
    this.call({ ...DAEMON, member: "AddMatch", args: [rule] })
  }

  /** Returns the signals received so far, without waiting. Throws `DbusError` if the bus has closed the connection. */
  takeSignals(): Message[] {
    while (poll(this.#socket.fd, Poll.In, 0)) this.#receiveMore()
    const signals: Message[] = []
    while (this.#received.length >= PREAMBLE_SIZE) {
      const length = messageLength(this.#received.subarray(0, PREAMBLE_SIZE))
      if (this.#received.length < length) break
      const message = decodeMessage(this.#take(length))
      if (message.type === MessageType.Signal) signals.push(message)
    }
    return signals
  }

  #exchange(call: MethodCall): Message {
    if (this.#broken !== undefined) throw this.#broken
    const serial = ++this.#serial
    try {
      this.#send(encodeCall(call, serial))
      for (;;) {
        const answer = this.#receive()
        if (answer.replySerial === serial) return answer
      }
    } catch (error) {
      this.#broken = error
      throw error
    }
  }

  #receive(): Message {
    this.#fill(PREAMBLE_SIZE)
    const length = messageLength(this.#received.subarray(0, PREAMBLE_SIZE))
    this.#fill(length)
    return decodeMessage(this.#take(length))
  }

  #readLine(): string {
    for (let length = 2; length < LINE_MAX; length++) {
      this.#fill(length)
      if (this.#received[length - 2] === 13 && this.#received[length - 1] === 10) {
        return decodeUtf8(this.#take(length)).trimEnd()
      }
    }
    throw new DbusError("Cannot authenticate at the system bus: its answer is too long")
  }

  #take(length: number): Uint8Array {
    const taken = this.#received.slice(0, length)
    this.#received = this.#received.slice(length)
    return taken
  }

  /** Waits until `length` bytes have been received. */
  #fill(length: number): void {
    while (this.#received.length < length) {
      this.#wait(Poll.In)
      this.#receiveMore()
    }
  }

  #receiveMore(): void {
    const into = new Uint8Array(4096)
    const count = read(this.#socket.fd, into)
    if (count === 0) throw new DbusError("Cannot use the system bus: it closed the connection")
    const all = new Uint8Array(this.#received.length + count)
    all.set(this.#received)
    all.set(into.subarray(0, count), this.#received.length)
    this.#received = all
  }

  #send(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length; ) {
      this.#wait(Poll.Out)
      done += write(this.#socket.fd, bytes.subarray(done))
    }
  }

  #wait(events: number): void {
    const left = this.#deadline - monotonicMs() // checked here: messages for others may arrive without end
    if (left > 0 && poll(this.#socket.fd, events, left)) return
    throw new DbusError(`Cannot use the system bus: no answer within ${this.#patienceMs} ms`)
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]()
  }
}

/** Returns the paths in a list of bus addresses, "unix:path=/run/bus,guid=…;unix:…". Skips sockets without a path. */
export function pathsIn(addresses: string): string[] {
  return addresses.split(";").flatMap((address) => {
    const [, transport, keys = ""] = /^(\w+):(.*)$/.exec(address) ?? []
    const path = keys.split(",").find((pair) => pair.startsWith("path="))
    return transport === "unix" && path ? [decodeEscapes(path.slice(5))] : []
  })
}

function decodeEscapes(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)))
}
