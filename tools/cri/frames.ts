/** What a server says that is not HTTP/2 as RFC 9113 has it, or not gRPC over it; or that it ends the call. */
export class Http2Error extends Error {}

/** RFC 9113 section 6. */
export const FrameType = {
  Data: 0,
  Headers: 1,
  ResetStream: 3,
  Settings: 4,
  PushPromise: 5,
  Ping: 6,
  GoAway: 7,
  WindowUpdate: 8,
  Continuation: 9,
} as const

/** The flags of frames; `Ack` is of settings and pings. */
export const Flag = { EndStream: 1, Ack: 1, EndHeaders: 4, Padded: 8, Priority: 0x20 } as const

/** The identifiers of settings, RFC 9113 section 6.5.2. */
export const Setting = { HeaderTableSize: 1, EnablePush: 2, InitialWindowSize: 4 } as const

/** What every connection begins with, RFC 9113 section 3.4. */
export const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/** The window of a connection before any update. */
export const INITIAL_WINDOW = 65_535

/** A frame. `stream` is 0 for those about the connection. */
export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Uint8Array
}

const HEAD = 9
/** SETTINGS_MAX_FRAME_SIZE where nothing else was agreed to. */
const LARGEST = 16_384

export function encodeFrame({ type, flags, stream, payload }: Frame): Uint8Array {
  const bytes = new Uint8Array(HEAD + payload.length)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, payload.length << 8)
  view.setUint8(3, type)
  view.setUint8(4, flags)
  view.setUint32(5, stream)
  bytes.set(payload, HEAD)
  return bytes
}

/** A payload of numbers of 16 and 32 bits, each with its size. */
export function numbers(...values: readonly (readonly [bits: 16 | 32, value: number])[]): Uint8Array {
  return Uint8Array.from(
    values.flatMap(([bits, value]) =>
      Array.from({ length: bits / 8 }, (_, at) => (value >>> (bits - 8 * (at + 1))) & 0xff),
    ),
  )
}

/** Cuts what is received into frames. */
export class FrameReader {
  #rest = new Uint8Array(0)

  /** The frames that are whole with these bytes. Throws `Http2Error` for one that is larger than may be. */
  take(bytes: Uint8Array): Frame[] {
    const all = new Uint8Array(this.#rest.length + bytes.length)
    all.set(this.#rest)
    all.set(bytes, this.#rest.length)
    const view = new DataView(all.buffer)
    const frames: Frame[] = []
    let at = 0
    while (all.length - at >= HEAD) {
      const length = view.getUint32(at) >>> 8
      if (length > LARGEST) throw new Http2Error("bytes that are no HTTP/2")
      if (all.length - at < HEAD + length) break
      const payload = all.slice(at + HEAD, at + HEAD + length)
      const stream = view.getUint32(at + 5) & 0x7fffffff
      frames.push({ type: view.getUint8(at + 3), flags: view.getUint8(at + 4), stream, payload })
      at += HEAD + length
    }
    this.#rest = all.slice(at)
    return frames
  }
}

/** The payload of a frame without its padding, and without the priority that headers may have. Throws `Http2Error`. */
export function contentOf({ type, flags, payload }: Frame): Uint8Array {
  const isPadded = (flags & Flag.Padded) !== 0
  const padding = isPadded ? (payload[0] ?? 0) : 0
  const priority = type === FrameType.Headers && (flags & Flag.Priority) !== 0 ? 5 : 0
  const start = (isPadded ? 1 : 0) + priority
  if (start + padding > payload.length) throw new Http2Error("a frame with more padding than bytes")
  return payload.subarray(start, payload.length - padding)
}
