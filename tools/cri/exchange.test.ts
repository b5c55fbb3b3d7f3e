import { describe, expect, test } from "bun:test"
import { hex } from "../../pkg/netlink/testing.ts"
import { Exchange, GrpcError } from "./exchange.ts"
import { Http2Error } from "./frames.ts"

const make = () => new Exchange("/runtime.v1.RuntimeService/Status", hex`0801`)

/** A frame, RFC 9113 section 4.1: its length, type, flags and stream, and its payload. */
function frame(type: number, flags: number, stream: number, payload: Uint8Array = new Uint8Array()): Uint8Array {
  const { length } = payload
  const head = [length >> 16, (length >> 8) & 255, length & 255, type, flags, 0, 0, 0, stream]
  return Uint8Array.from([...head, ...payload])
}
const all = (...parts: readonly Uint8Array[]) => Uint8Array.from(parts.flatMap((part) => [...part]))
const latin1 = (text: string) => Uint8Array.from([...text].map((letter) => letter.charCodeAt(0)))

/** A header without compression, RFC 7541 section 6.2.2. */
const header = (name: string, value: string) =>
  Uint8Array.from([0, name.length, ...latin1(name), value.length, ...latin1(value)])

const settings = frame(4, 0, 0, hex`0003 00000064`) // SETTINGS_MAX_CONCURRENT_STREAMS 100
const ok = hex`88` // entry 8 of the static table, ":status" "200"
const headers = frame(1, 4, 1, ok)
const data = frame(0, 0, 1, hex`00 00000003 010203`)
const trailers = frame(1, 5, 1, header("grpc-status", "0"))

/** Whole answers, cut into pieces of so many bytes. */
function exchange(bytes: Uint8Array, size = bytes.length): { answer: Uint8Array | undefined; sent: string } {
  const one = make()
  let sent = ""
  for (let at = 0; at < bytes.length; at += size) sent += one.take(bytes.subarray(at, at + size)).toHex()
  return { answer: one.answer, sent }
}

test("a call is preface, settings, a window, headers and one message", () => {
  expect(make().opening).toEqual(
    all(
      latin1("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      // no table of headers, no pushes, a window of 4 MiB and 65,535 bytes
      hex`000012 04 00 00000000  0001 00000000  0002 00000000  0004 0040ffff`,
      hex`000004 08 00 00000000  00400000`, // and as much for the whole connection
      frame(
        1,
        4,
        1,
        all(
          ...[header(":method", "POST"), header(":scheme", "http")],
          ...[header(":path", "/runtime.v1.RuntimeService/Status"), header(":authority", "localhost")],
          ...[
            header("content-type", "application/grpc"),
            header("te", "trailers"),
            header("user-agent", "cni-plugins"),
          ],
        ),
      ),
      hex`000007 00 01 00000001  00 00000002 0801`, // not compressed, 2 bytes
    ),
  )
})

test.each([1, 2, 7, 1000])("an answer is read in pieces of %d bytes; the settings are acknowledged", (size) => {
  expect(exchange(all(settings, headers, data, trailers), size)).toEqual({
    answer: hex`010203`,
    sent: "000000040100000000",
  })
})

test("there is no answer before its status is there", () => {
  expect(exchange(all(settings, headers, data)).answer).toBeUndefined()
})

describe("all that a server may say besides", () => {
  const cases: Record<string, Uint8Array> = {
    "padding and priorities": all(
      settings,
      frame(1, 4 | 8 | 0x20, 1, hex`02 00000000 10 88 0000`),
      frame(0, 8, 1, hex`03 00 00000003 010203 000000`),
      trailers,
    ),
    "headers in pieces": all(
      settings,
      frame(1, 0, 1, ok),
      frame(9, 4, 1, header("content-type", "application/grpc")),
      data,
      frame(1, 1, 1, header("grpc-status", "0").subarray(0, 4)),
      frame(9, 0, 1),
      frame(9, 4, 1, header("grpc-status", "0").subarray(4)),
    ),
    "a message in pieces": all(
      settings,
      headers,
      ...[...hex`00 00000003 010203`].map((byte) => frame(0, 0, 1, Uint8Array.of(byte))),
      trailers,
    ),
    "windows, priorities, frames of unknown types": all(
      settings,
      frame(8, 0, 0, hex`00000001`),
      frame(2, 0, 3, hex`00000000 10`),
      frame(0xbe, 0xff, 0, hex`0102`),
      headers,
      frame(8, 0, 1, hex`00000001`),
      data,
      trailers,
    ),
    "that it ends after this call": all(settings, frame(7, 0, 0, hex`00000001 00000000`), headers, data, trailers),
    "a reset after the answer": all(settings, headers, data, trailers, frame(3, 0, 1, hex`00000000`)),
    "a table of no size": all(settings, frame(1, 4, 1, all(hex`20`, ok)), data, trailers),
  }
  test.each(Object.entries(cases))("%s", (_, bytes) => {
    expect(exchange(bytes).answer).toEqual(hex`010203`)
    expect(exchange(bytes, 3).answer).toEqual(hex`010203`)
  })

  test("a ping, which is answered with its own bytes; acknowledgements, which are not", () => {
    const pings = all(
      settings,
      frame(4, 1, 0),
      frame(6, 0, 0, hex`0102030405060708`),
      frame(6, 1, 0, hex`0000000000000000`),
    )
    expect(exchange(pings).sent).toBe(`000000040100000000${"000008060100000000"}0102030405060708`)
  })
})

test.each([
  [[header("grpc-status", "12"), header("grpc-message", "unknown service")], 12, "unknown service"],
  [[header("grpc-status", "14"), header("grpc-message", "na%C3%AFve 100%, %zz")], 14, "naïve 100%, %zz"],
  [[header("grpc-status", "5")], 5, "status 5 of gRPC"],
])("an error of the server is thrown with its number, %#", (block, code, message) => {
  const only = all(settings, frame(1, 5, 1, all(ok, ...block)))
  const late = all(settings, headers, data, frame(1, 5, 1, all(...block)))
  for (const bytes of [only, late]) expect(() => exchange(bytes)).toThrow(expect.objectContaining({ code, message }))
  expect(() => exchange(only)).toThrow(GrpcError)
})

const long = new Uint8Array(16_384).fill(0x21)
const refused: Record<string, readonly [says: string, bytes: Uint8Array]> = {
  "HTTP/1.1": ["no HTTP/2", latin1("HTTP/1.1 400 Bad Request\r\n\r\n")],
  "headers before settings": ["no HTTP/2", all(headers)],
  "a frame that is too large": ["no HTTP/2", all(settings, hex`004001 00 00 00000001`)],
  "another status": ["status 404 of HTTP", all(settings, frame(1, 4, 1, hex`8d`))],
  "no status": ["status none of HTTP", all(settings, frame(1, 4, 1, header("a", "b")))],
  "an end without a status of gRPC": [
    "without a status of gRPC",
    all(settings, headers, frame(0, 1, 1, hex`00 00000000`)),
  ],
  "trailers without a status of gRPC": [
    "without a status of gRPC",
    all(settings, headers, frame(1, 5, 1, header("a", "b"))),
  ],
  "a message that is cut off": [
    "not one whole message",
    all(settings, headers, frame(0, 0, 1, hex`00 00000003 01`), trailers),
  ],
  "two messages": ["not one whole message", all(settings, headers, data, data, trailers)],
  "no message": ["not one whole message", all(settings, headers, trailers)],
  "a compressed message": ["compressed", all(settings, headers, frame(0, 0, 1, hex`01 00000001 00`), trailers)],
  "a message that says that it is large": [
    "more than 4194304 bytes",
    all(settings, headers, frame(0, 0, 1, hex`00 00400001`)),
  ],
  "a message that is larger than it says": [
    "not one whole message",
    all(settings, headers, data, frame(0, 0, 1, hex`00`)),
  ],
  "headers without end": [
    "headers of more than 65536 bytes",
    all(settings, frame(1, 0, 1, long), ...Array.from({ length: 4 }, () => frame(9, 0, 1, long))),
  ],
  "headers that others interrupt": [
    "not in one piece",
    all(settings, frame(1, 0, 1, ok), frame(6, 0, 0, new Uint8Array(8))),
  ],
  "a continuation of nothing": ["not in one piece", all(settings, frame(9, 4, 1, ok))],
  "data before headers": ["without headers", all(settings, data)],
  "an answer to another request": ["another request", all(settings, frame(1, 4, 3, ok))],
  "a promise": ["not asked for", all(settings, frame(5, 4, 1, hex`00000002 88`))],
  "too much padding": ["more padding than bytes", all(settings, frame(1, 12, 1, hex`05 88`))],
  "a reset": ["ends the call, error 8", all(settings, headers, frame(3, 0, 1, hex`00000008`))],
  "a reset that is cut off": ["too short", all(settings, headers, frame(3, 0, 1, hex`00`))],
  "that it takes no call": [
    "closed the connection, error 11 of HTTP/2: too many pings",
    all(settings, frame(7, 0, 0, all(hex`00000000 0000000b`, latin1("too many pings")))),
  ],
  "a farewell that is cut off": ["too short", all(settings, frame(7, 0, 0, hex`00000000`))],
  "an entry of a table of its own": ["not agreed to", all(settings, frame(1, 4, 1, hex`be`))],
  "a table that it has made larger": ["not agreed to", all(settings, frame(1, 4, 1, hex`3f e11f 88`))],
  "a header that is cut off": ["cut off", all(settings, frame(1, 4, 1, hex`88 00 05 6162`))],
  "a length of headers that is too large": ["too large", all(settings, frame(1, 4, 1, hex`00 7f ffffffffff`))],
}
test.each(Object.entries(refused))("what is not understood is refused: %s", (_, [says, bytes]) => {
  for (const size of [bytes.length, 1000]) {
    const attempt = () => exchange(bytes, size)
    expect(attempt).toThrow(says)
    expect(attempt).toThrow(Http2Error)
  }
})

test("a server that ends has its last words in the error", () => {
  const one = make()
  one.take(all(settings, frame(7, 0, 0, all(hex`00000001 00000000`, latin1("shutting down")))))
  expect(one.ended().message).toBe("it has closed the connection, error 0 of HTTP/2: shutting down")
})

test("random bytes are an answer, or refused", () => {
  for (let seed = 1; seed < 3000; seed++) {
    let state = seed
    const random = () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0
      return state >>> 16
    }
    const bytes = all(settings, headers, data, trailers)
    for (let count = 1 + (seed % 4); count > 0; count--) bytes[random() % bytes.length] = random() & 255
    try {
      exchange(bytes, 1 + (random() % 40))
    } catch (error) {
      expect(error instanceof Http2Error || error instanceof GrpcError ? "refused" : error).toBe("refused")
    }
  }
})
