import { Http2Error } from "./frames.ts"

/** The fields of a message by their numbers, in their order: numbers, and bytes of texts and of messages. Others are left out. */
export interface Fields {
  readonly numbers: ReadonlyMap<number, number>
  readonly bytes: ReadonlyMap<number, readonly Uint8Array[]>
}

/**
 * Reads a message of Protocol Buffers <https://protobuf.dev/programming-guides/encoding/>. Throws `Http2Error` for
 * invalid bytes.
 */
export function readMessage(message: Uint8Array): Fields {
  const numbers = new Map<number, number>()
  const bytes = new Map<number, Uint8Array[]>()
  let at = 0
  /** Of a number of more than 53 bits the last digits may be wrong; no field that is read here has one. */
  const varint = () => {
    let value = 0
    for (let scale = 1, count = 0; ; scale *= 128, count++) {
      const byte = message[at++]
      if (byte === undefined || count === 10) throw cutOff()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
  const skip = (length: number) => {
    if (length > message.length - at) throw cutOff()
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const key = varint()
    const [number, type] = [Math.floor(key / 8), key % 8]
    if (type === 0) numbers.set(number, varint())
    else if (type === 1) skip(8)
    else if (type === 5) skip(4)
    else if (type === 2) {
      const values = bytes.get(number) ?? []
      values.push(skip(varint()))
      bytes.set(number, values)
    } else throw new Http2Error("an answer that is no message of CRI")
  }
  return { numbers, bytes }
}

const cutOff = () => new Http2Error("an answer that is cut off")
