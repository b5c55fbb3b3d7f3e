import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { concat } from "../../pkg/netlink/mod.ts"
import {
  contentOf,
  encodeFrame,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  Http2Error,
  INITIAL_WINDOW,
  numbers,
  PREFACE,
  Setting,
} from "./frames.ts"
import { decodeHeaders, encodeHeaders, type Header } from "./hpack.ts"

/** The largest answer, as gRPC's clients have it by default. */
const LARGEST_ANSWER = 4 << 20
/** The server may send all of it, and so much more that a larger one shows, without being asked to go on. */
const WINDOW = LARGEST_ANSWER + INITIAL_WINDOW
const LARGEST_HEADERS = 64 << 10
/** The client's only request. */
const STREAM = 1
const GRPC_HEAD = 5

/** The server has answered with an error of its own. */
export class GrpcError extends Error {
  /** The number of <https://grpc.github.io/grpc/core/md_doc_statuscodes.html>: 12 for a call that the server does not know. */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export const UNIMPLEMENTED = 12

/** One unary call of gRPC, and all that is said over its connection. It does no I/O: bytes come in, bytes go out. */
export class Exchange {
  /** What the client says first. */
  readonly opening: Uint8Array
  readonly #frames = new FrameReader()
  #isGreeted = false
  #headers: Uint8Array | undefined
  #hasHeaders = false
  #data: Uint8Array = new Uint8Array(GRPC_HEAD)
  #filled = 0
  #isLast = false
  #isOver = false
  #farewell = ""

  /** `path` is the call's, "/runtime.v1.RuntimeService/Status". */
  constructor(path: string, message: Uint8Array) {
    const settings = [Setting.HeaderTableSize, 0, Setting.EnablePush, 0, Setting.InitialWindowSize, WINDOW] as const
    const headers = encodeHeaders([
      [":method", "POST"],
      [":scheme", "http"],
      [":path", path],
      [":authority", "localhost"],
      ["content-type", "application/grpc"],
      ["te", "trailers"],
      ["user-agent", "cni-plugins"],
    ])
    const body = Uint8Array.from([0, ...numbers([32, message.length]), ...message])
    this.opening = concat([
      encodeUtf8(PREFACE),
      frame(FrameType.Settings, 0, 0, numbers(...settings.map((value, at) => [at % 2 ? 32 : 16, value] as const))),
      frame(FrameType.WindowUpdate, 0, 0, numbers([32, WINDOW - INITIAL_WINDOW])),
      frame(FrameType.Headers, Flag.EndHeaders, STREAM, headers),
      frame(FrameType.Data, Flag.EndStream, STREAM, body),
    ])
  }

  /** The answer's message; undefined while it is not whole. Throws `GrpcError` and `Http2Error`. */
  get answer(): Uint8Array | undefined {
    if (!this.#isOver) return undefined
    if (this.#filled < this.#data.length) throw new Http2Error("an answer that is not one whole message")
    return this.#data.subarray(GRPC_HEAD)
  }

  /** Takes what was received. Returns what has to be sent. Throws `GrpcError` and `Http2Error`. */
  take(bytes: Uint8Array): Uint8Array {
    const replies: Uint8Array[] = []
    for (const each of this.#frames.take(bytes)) {
      if (this.#isOver) break
      const reply = this.#takeFrame(each)
      if (reply) replies.push(reply)
    }
    return concat(replies)
  }

  /** The error of a connection that has ended before the answer. */
  ended(): Http2Error {
    return new Http2Error(`it has closed the connection${this.#farewell}`)
  }

  #takeFrame(each: Frame): Uint8Array | undefined {
    const { type, flags, stream, payload } = each
    const isAck = (flags & Flag.Ack) !== 0
    if (!this.#isGreeted && type !== FrameType.Settings) throw new Http2Error("bytes that are no HTTP/2")
    this.#isGreeted = true
    const isContinued = this.#headers !== undefined
    if (isContinued !== (type === FrameType.Continuation)) throw new Http2Error("headers that are not in one piece")
    if (type === FrameType.Settings) return isAck ? undefined : frame(FrameType.Settings, Flag.Ack, 0, new Uint8Array())
    if (type === FrameType.Ping) return isAck ? undefined : frame(FrameType.Ping, Flag.Ack, 0, payload)
    if (type === FrameType.GoAway) return this.#takeFarewell(payload)
    if (type === FrameType.PushPromise) throw new Http2Error("an answer that was not asked for")
    if (type !== FrameType.Headers && type !== FrameType.Data && !isContinued && type !== FrameType.ResetStream)
      return undefined // windows, which a small request does not fill, priorities, extensions
    if (stream !== STREAM) throw new Http2Error("an answer to another request")
    if (type === FrameType.ResetStream) throw new Http2Error(`it ends the call, ${errorNumber(payload, 0)}`)
    if (type === FrameType.Data) this.#takeData(contentOf(each))
    else this.#takeHeaders(isContinued ? payload : contentOf(each), (flags & Flag.EndHeaders) !== 0)
    // A continuation has no such flag: the frame that it continues had it, and then these are the last headers.
    if (type !== FrameType.Continuation && (flags & Flag.EndStream) !== 0) this.#isLast = true
    if (this.#isLast && this.#headers === undefined && !this.#isOver)
      throw new Http2Error("an answer without a status of gRPC")
    return undefined
  }

  #takeFarewell(payload: Uint8Array): undefined {
    const view = new DataView(payload.buffer, payload.byteOffset)
    if (payload.length < 8) throw new Http2Error("a frame that is too short")
    const said = decodeUtf8(payload.subarray(8, 200))
    this.#farewell = `, ${errorNumber(payload, 4)}${said && `: ${said}`}`
    if ((view.getUint32(0) & 0x7fffffff) < STREAM) throw this.ended()
  }

  /** A message is announced with its length, in the first bytes of the data. */
  #takeData(content: Uint8Array): void {
    if (!this.#hasHeaders) throw new Http2Error("an answer without headers")
    const head = content.subarray(0, Math.max(0, GRPC_HEAD - this.#filled))
    this.#data.set(head, this.#filled)
    this.#filled += head.length
    if (head.length > 0 && this.#filled === GRPC_HEAD) this.#data = roomFor(this.#data)
    const rest = content.subarray(head.length)
    if (this.#filled + rest.length > this.#data.length) throw new Http2Error("an answer that is not one whole message")
    this.#data.set(rest, this.#filled)
    this.#filled += rest.length
  }

  #takeHeaders(piece: Uint8Array, isWhole: boolean): void {
    const block = concat([this.#headers ?? new Uint8Array(), piece])
    if (block.length > LARGEST_HEADERS) throw new Http2Error(`headers of more than ${LARGEST_HEADERS} bytes`)
    this.#headers = isWhole ? undefined : block
    if (!isWhole) return
    const headers = decodeHeaders(block)
    const find = (wanted: string) => headers.find(([name]) => name === wanted)?.[1]
    const status = find(":status")
    if (!this.#hasHeaders && status !== "200") throw new Http2Error(`status ${status ?? "none"} of HTTP`)
    this.#hasHeaders = true
    this.#takeStatus(find("grpc-status"), headers)
  }

  /** The status of gRPC, with which an answer ends. */
  #takeStatus(status: string | undefined, headers: readonly Header[]): void {
    if (status === undefined) return
    const message = headers.find(([name]) => name === "grpc-message")?.[1] ?? ""
    if (status !== "0") throw new GrpcError(Number(status), decodePercents(message) || `status ${status} of gRPC`)
    this.#isOver = true
  }
}

/** The buffer for a message's body. */
function roomFor(head: Uint8Array): Uint8Array {
  const length = new DataView(head.buffer).getUint32(1)
  if (length > LARGEST_ANSWER) throw new Http2Error(`an answer of more than ${LARGEST_ANSWER} bytes`)
  if (head[0] !== 0) throw new Http2Error("a compressed answer, which was not agreed to")
  return concat([head, new Uint8Array(length)])
}

const frame = (type: number, flags: number, stream: number, payload: Uint8Array) =>
  encodeFrame({ type, flags, stream, payload })

function errorNumber(payload: Uint8Array, at: number): string {
  if (payload.length < at + 4) throw new Http2Error("a frame that is too short")
  return `error ${new DataView(payload.buffer, payload.byteOffset).getUint32(at)} of HTTP/2`
}

/** A text in which bytes may stand as "%E2"; those that are no such pair stay. */
function decodePercents(text: string): string {
  const bytes: number[] = []
  for (let at = 0; at < text.length; at++) {
    const [, digits] = /^%([0-9A-Fa-f]{2})/.exec(text.slice(at, at + 3)) ?? []
    bytes.push(digits === undefined ? text.charCodeAt(at) & 0xff : Number.parseInt(digits, 16))
    if (digits !== undefined) at += 2
  }
  return decodeUtf8(Uint8Array.from(bytes))
}
