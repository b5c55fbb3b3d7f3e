import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"

/** `DBUS_MESSAGE_TYPE_*`, D-Bus Specification, "Message Format". */
export const MessageType = { Call: 1, Return: 2, Error: 3, Signal: 4 } as const

/** `DBUS_HEADER_FIELD_*`: the codes of the fields in a header. */
const Field = {
  Path: 1,
  Interface: 2,
  Member: 3,
  ErrorName: 4,
  ReplySerial: 5,
  Destination: 6,
  Sender: 7,
  Signature: 8,
} as const

/** The size of a header up to the length of its fields. */
export const PREAMBLE_SIZE = 16
/** The size limit of a message in bytes, larger than any expected answer. The specification allows 128 MiB. */
export const MESSAGE_MAX = 1 << 20

const VERSION = 1
const LITTLE_ENDIAN = 0x6c // "l"
const BIG_ENDIAN = 0x42 // "B"

/** A call of a method. All arguments are texts. */
export interface MethodCall {
  destination: string
  path: string
  interface: string
  member: string
  args: readonly string[]
}

/** A value of a supported type: text, number, boolean, or list of strings. */
export type Value = string | number | boolean | string[]

/** A message from the bus, with the fields that the caller of a method needs. */
export interface Message {
  type: number
  replySerial: number | undefined
  errorName: string | undefined
  /** Interface and name of a signal, "org.fedoraproject.FirewallD1" and "Reloaded"; undefined in other messages. */
  interface?: string
  member?: string
  /** The unique name of the sender, which the bus has written. */
  sender?: string
  /** The values of the message, up to the first value of an unsupported type. */
  body: Value[]
}

/** The error for a method's error, a bus that does not answer, or a malformed message. */
export class DbusError extends Error {
  override readonly name = "DbusError"
  /** The name of the method's error, "org.freedesktop.DBus.Error.AccessDenied"; `undefined` if it has none. */
  readonly errorName: string | undefined

  constructor(message: string, errorName?: string) {
    super(message)
    this.errorName = errorName
  }
}

/** Encodes a method call in little-endian order. */
export function encodeCall(call: MethodCall, serial: number): Uint8Array {
  const body: number[] = []
  for (const text of call.args) pushText(body, text)
  const fields: number[] = []
  pushField(fields, Field.Path, "o", call.path)
  pushField(fields, Field.Interface, "s", call.interface)
  pushField(fields, Field.Member, "s", call.member)
  pushField(fields, Field.Destination, "s", call.destination)
  if (call.args.length > 0) pushField(fields, Field.Signature, "g", "s".repeat(call.args.length))
  const message = [LITTLE_ENDIAN, MessageType.Call, 0, VERSION]
  for (const number of [body.length, serial, fields.length]) pushU32(message, number)
  message.push(...fields)
  align(message, 8)
  return Uint8Array.from([...message, ...body])
}

function align(bytes: number[], size: number): void {
  while (bytes.length % size !== 0) bytes.push(0)
}

function pushU32(bytes: number[], value: number): void {
  align(bytes, 4)
  bytes.push(value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24)
}

function pushText(bytes: number[], text: string): void {
  const encoded = encodeUtf8(text)
  pushU32(bytes, encoded.length)
  bytes.push(...encoded, 0)
}

/** Appends a field of the header: its code, the type of its value, and the value; aligned to eight bytes. */
function pushField(bytes: number[], code: number, type: "o" | "s" | "g", text: string): void {
  align(bytes, 8) // the array of fields begins at a multiple of eight
  bytes.push(code, 1, ...encodeUtf8(type), 0)
  if (type !== "g") pushText(bytes, text)
  else bytes.push(text.length, ...encodeUtf8(text), 0)
}

/** Returns the length of the message that begins with this preamble. Throws `DbusError`. */
export function messageLength(preamble: Uint8Array): number {
  const reader = new Reader(preamble)
  reader.at = 4
  const [body, , fields] = [reader.u32(), reader.u32(), reader.u32()]
  const length = Math.ceil((PREAMBLE_SIZE + fields) / 8) * 8 + body
  if (length > MESSAGE_MAX) throw new DbusError(`a message of ${length} bytes`)
  return length
}

/** Decodes a whole message. Throws `DbusError`. */
export function decodeMessage(bytes: Uint8Array): Message {
  const reader = new Reader(bytes)
  const message: Message = { type: bytes[1] ?? 0, replySerial: undefined, errorName: undefined, body: [] }
  let signature = ""
  reader.at = 12
  const end = reader.u32() + PREAMBLE_SIZE
  while (reader.at < end) {
    reader.align(8)
    const code = reader.byte()
    const value = reader.value(reader.signature())
    if (code === Field.ReplySerial && typeof value === "number") message.replySerial = value
    if (code === Field.ErrorName && typeof value === "string") message.errorName = value
    if (code === Field.Interface && typeof value === "string") message.interface = value
    if (code === Field.Member && typeof value === "string") message.member = value
    if (code === Field.Sender && typeof value === "string") message.sender = value
    if (code === Field.Signature && typeof value === "string") signature = value
    if (value === undefined) throw new DbusError(`field ${code} has an unknown type`)
  }
  reader.align(8)
  for (const type of signature.match(/as|./g) ?? []) {
    const value = reader.value(type)
    if (value === undefined) break
    message.body.push(value)
  }
  return message
}

/** Reads values in the byte order of a message. Throws `DbusError` at the end of the message. */
class Reader {
  at = 0
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #isLittle: boolean

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#isLittle = bytes[0] === LITTLE_ENDIAN
    if (bytes.length < PREAMBLE_SIZE || (!this.#isLittle && bytes[0] !== BIG_ENDIAN)) {
      throw new DbusError("the bytes are not the beginning of a D-Bus message")
    }
  }

  align(size: number): void {
    this.at = Math.ceil(this.at / size) * size
  }

  #take(length: number): Uint8Array {
    const bytes = this.#bytes.subarray(this.at, this.at + length)
    if (bytes.length !== length) throw new DbusError(`the message ends before byte ${this.at + length}`)
    this.at += length
    return bytes
  }

  byte(): number {
    return this.#take(1)[0] ?? 0
  }

  u32(): number {
    this.align(4)
    this.#take(4)
    return this.#view.getUint32(this.at - 4, this.#isLittle)
  }

  /** Reads a text of `length` bytes and the zero byte after it. */
  #text(length: number): string {
    return decodeUtf8(this.#take(length + 1).subarray(0, length))
  }

  signature(): string {
    return this.#text(this.byte())
  }

  /**
   * Returns the next value, which has the given type. If the type is unsupported, returns undefined and reads nothing.
   */
  value(type: string): Value | undefined {
    switch (type) {
      case "s":
      case "o":
        return this.#text(this.u32())
      case "g":
        return this.signature()
      case "u":
        return this.u32()
      case "i":
        return this.u32() | 0
      case "b":
        return this.u32() !== 0
      case "as": {
        const end = this.u32() + this.at
        const texts: string[] = []
        while (this.at < end) texts.push(this.#text(this.u32()))
        return texts
      }
      default:
        return undefined
    }
  }
}
