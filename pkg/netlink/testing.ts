/** Helpers for the tests of this package and of others. `mod.ts` does not export them. */
import fc from "fast-check"
import { type Fd, SyscallError } from "../libc/mod.ts"
import type { Request } from "./channel.ts"
import { DecodeError } from "./codec.ts"
import type { Ifindex } from "./links.ts"
import { encodeMessage, type Message, NetlinkError, NLMSG_DONE, NLMSG_ERROR, readMessages } from "./message.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "./socket.ts"
import type { Transport } from "./transport.ts"

/** Returns the bytes given by hex digits. White space is ignored; `#` begins a comment. */
export function hex(text: TemplateStringsArray): Uint8Array {
  return Uint8Array.fromHex(text.join("").replace(/#.*|\s/g, ""))
}

/** Returns an address as bytes: "10.1.2.3", or eight groups of hex digits. */
export function ip(text: string): Uint8Array {
  if (text.includes(".")) return Uint8Array.from(text.split("."), Number)
  return Uint8Array.fromHex(text.replace(/[^:]+/g, (group) => group.padStart(4, "0")).replaceAll(":", ""))
}

export function linkNumber(index: number, name: string): { index: Ifindex; name: string } {
  return { index: index as Ifindex, name }
}

/** What a scripted kernel returns to a receive: a datagram, or an errno. */
export type Answer = Uint8Array | number

/** Replaces the kernel in a test: records the requests, and answers them with a script. */
export class ScriptedKernel implements Transport {
  readonly fd = -1 as Fd
  isWide = true
  readonly firstSequence: number
  readonly datagrams: Uint8Array[] = []
  readonly timeouts: number[] = []
  closed = 0
  /** `canRenew` tells whether the socket can be replaced; `renewed` counts the replacements. */
  canRenew = true
  renewed = 0
  /** `asked` counts the calls of `receive`; `handedOut` counts the datagrams that it has returned. */
  asked = 0
  handedOut = 0
  readonly #script: (request: Message) => Answer[]
  readonly #waiting: Answer[] = []

  constructor(script: (request: Message) => Answer[] = () => [], firstSequence = 0) {
    this.#script = script
    this.firstSequence = firstSequence
  }

  get requests(): Message[] {
    return this.datagrams.flatMap(readMessages)
  }

  /** Adds datagrams that answer no request. */
  push(...answers: Answer[]): void {
    this.#waiting.push(...answers)
  }

  send(datagram: Uint8Array): void {
    this.datagrams.push(datagram.slice())
    for (const request of readMessages(datagram)) this.#waiting.push(...this.#script(request))
  }

  receive(widen = false): Uint8Array {
    this.isWide ||= widen
    this.asked++
    const next = this.#waiting.shift() ?? 11 // EAGAIN
    if (typeof next === "number") throw new SyscallError("recv", next)
    this.handedOut++
    return next.slice()
  }

  waitForNext(timeoutMs: number): Uint8Array {
    this.timeouts.push(timeoutMs)
    return this.receive()
  }

  renew(): boolean {
    if (!this.canRenew) return false
    this.#waiting.length = 0
    this.renewed++
    return true
  }

  leave(): void {
    this.closed++
  }

  [Symbol.dispose](): void {
    this.closed++
  }
}

export function reply(request: Pick<Message, "sequence">, type: number, payload: Uint8Array): Uint8Array {
  return encodeMessage(type, 0, request.sequence, payload)
}

/** Returns `NLMSG_ERROR` with an errno, 0 for an acknowledgement, capped to the header of the request. */
export function acknowledge(request: Pick<Message, "type" | "sequence">, errno = 0): Uint8Array {
  const payload = new Uint8Array(20)
  const view = new DataView(payload.buffer)
  view.setInt32(0, -errno, true)
  view.setUint32(4, 16, true)
  view.setUint16(8, request.type, true)
  view.setUint32(12, request.sequence, true)
  return encodeMessage(NLMSG_ERROR, 0x100, request.sequence, payload)
}

/** Returns `NLMSG_DONE`: the end of a list, with its outcome. */
export function done(request: Pick<Message, "sequence">, errno = 0, flags = 2): Uint8Array {
  return encodeMessage(NLMSG_DONE, flags, request.sequence, new Uint8Array(new Int32Array([-errno]).buffer))
}

/** Returns the only request that `action` sends to a kernel that accepts everything. */
export function requestOf(action: (route: NetlinkSocket) => void): Pick<Message, "type" | "flags" | "payload"> {
  const kernel = new ScriptedKernel((request) => [acknowledge(request)])
  action(new NetlinkSocket(NETLINK_ROUTE, 0, kernel))
  const [request, ...more] = kernel.requests
  if (!request || more.length > 0) throw new Error(`expected one request, found ${kernel.requests.length}`)
  const { type, flags, payload } = request
  return { type, flags, payload }
}

/** Returns a socket on which every list has these payloads. */
export function listing(...payloads: Uint8Array[]): NetlinkSocket {
  const script = (request: Message) => [
    // RTM_GET… is RTM_NEW… plus 2
    ...payloads.map((payload) => encodeMessage(request.type - 2, 2, request.sequence, payload)),
    done(request),
  ]
  return new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel(script))
}

/** Returns the method `dump` of a socket whose kernel answers list requests with these messages. */
export function dumping(answers: (request: Request) => readonly Message[]): NetlinkSocket["dump"] {
  return (request, pick) => {
    const picked: NonNullable<ReturnType<typeof pick>>[] = []
    for (const message of answers(request)) {
      const found = pick(message)
      if (found !== undefined && found !== null) picked.push(found)
    }
    return picked
  }
}

/** The layout of a payload: the header's size, and the attributes that contain attributes, or are texts. */
export interface Layout {
  header?: number
  nested?: Record<number, Layout>
  texts?: readonly number[]
}
export type Tree = { header: string; [type: number]: string | Tree }

/**
 * Returns a payload as a tree, so that tests can compare requests regardless of the order of attributes, of
 * `NLA_F_NESTED` (which iproute2 sometimes omits), and of a NUL at the end of a text. Decodes the bytes without the
 * code under test.
 */
export function tree(bytes: Uint8Array, { header = 0, nested = {}, texts = [] }: Layout): Tree {
  const found: Tree = { header: bytes.subarray(0, header).toHex() }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let at = header; at < bytes.length; ) {
    const length = view.getUint16(at, true)
    const type = view.getUint16(at + 2, true) & 0x3fff
    const payload = bytes.subarray(at + 4, at + length)
    const layout = nested[type]
    if (type in found) throw new Error(`attribute ${type} occurs twice`)
    found[type] = layout ? tree(payload, layout) : payload.toHex().replace(texts.includes(type) ? /(00)$/ : /$^/, "")
    at += length + ((4 - (length % 4)) % 4)
  }
  return found
}

/**
 * Decodes random bytes, and valid bytes that were truncated or changed anywhere. Fails if the decoder throws anything
 * but `DecodeError`, `RangeError`, or the `NetlinkError` `EBADMSG` of a request.
 */
export function expectOnlyDecodeErrors(decode: (bytes: Uint8Array) => unknown, ...good: Uint8Array[]): void {
  const attempt = (bytes: Uint8Array) => {
    try {
      decode(bytes)
    } catch (error) {
      const isExpected = error instanceof NetlinkError && error.errno === "EBADMSG"
      if (!(isExpected || error instanceof DecodeError || error instanceof RangeError)) throw error
    }
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 120 }), attempt), { numRuns: 300 })
  for (const bytes of good) {
    for (let length = 0; length < bytes.length; length++) attempt(bytes.slice(0, length))
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.nat(255))
    const changes = fc.array(change, { minLength: 1, maxLength: 4 })
    const changed = changes.map((list) => {
      const copy = bytes.slice()
      for (const [at, value] of list) copy[at] = value
      return copy
    })
    fc.assert(fc.property(changed, attempt), { numRuns: 500 })
  }
}

export { encodeMessage, NLMSG_ERROR, readMessages } from "./message.ts"
export { KernelTransport } from "./transport.ts"
