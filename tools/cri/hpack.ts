import { decodeLatin1, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { Http2Error } from "./frames.ts"

/** A header: its name and its value. */
export type Header = readonly [name: string, value: string]

/**
 * How many bits each byte has in the Huffman code, RFC 7541 appendix B, as digits of base 36; the end of a text has 30. The code is
 * canonical: of one length in the order of the bytes, and shorter ones first.
 */
const lengths = [
  ...["dnsssssssoussussssssssusssssssss", "6aacd68baa8b8666555666666678f6ca"],
  ...["d67777777777777777777777878djde6", "f56565666577666567655677777fbeds"],
  ...["kmkkmmmnmnnnnnonoomnonnnnlmnmnno", "mlkmmnnlnmmolmnnllmlnmnnkmmmnmmn"],
  ...["qqkjmnmpqqqrrqopjlqrrqrollqqsrrr", "koklmllnmmppooqnqrqqrrrrrsrrrrrq"],
].join("")
const END_OF_TEXT = 256

/** The symbols by their code, with a 1 in front of it, so that leading zeros count. */
const symbols: ReadonlyMap<number, number> = canonicalCode([...lengths].map((digit) => Number.parseInt(digit, 36)))

function canonicalCode(bits: readonly number[]): Map<number, number> {
  const all = [...bits, 30].map((length, symbol) => ({ length, symbol }))
  all.sort((a, b) => a.length - b.length || a.symbol - b.symbol)
  const codes = new Map<number, number>()
  let [code, last] = [0, 0]
  for (const { length, symbol } of all) {
    code <<= length - last
    last = length
    codes.set(2 ** length + code++, symbol)
  }
  return codes
}

/** The headers of a request. No text is compressed, and nothing is kept for a later one. */
export function encodeHeaders(headers: readonly Header[]): Uint8Array {
  const text = (value: string) => {
    const bytes = encodeUtf8(value)
    if (bytes.length > 126) throw new Http2Error(`the text "${value}" is too long`)
    return [bytes.length, ...bytes]
  }
  return Uint8Array.from(headers.flatMap(([name, value]) => [0, ...text(name), ...text(value)]))
}

/** Entries 8 to 14 of the static table, RFC 7541 appendix A. The names of the others say nothing that matters here. */
const statuses = ["200", "204", "206", "304", "400", "404", "500"]
const STATIC_ENTRIES = 61

/**
 * Reads a block of headers of a server that was told to keep no table of its own (SETTINGS_HEADER_TABLE_SIZE 0). A header whose name is an
 * entry of the static table other than ":status" has the name "". Throws `Http2Error`.
 */
export function decodeHeaders(block: Uint8Array): Header[] {
  const reader = new Reader(block)
  const headers: Header[] = []
  while (!reader.isAtEnd) {
    const first = reader.peek()
    if (first >= 0x80) {
      const entry = reader.integer(7)
      headers.push([requireStatic(entry), statuses[entry - 8] ?? ""])
    } else if (first >= 0x20 && first < 0x40) {
      if (reader.integer(5) !== 0) throw new Http2Error("a table of headers that was not agreed to")
    } else {
      const entry = reader.integer(first >= 0x40 ? 6 : 4)
      const name = entry === 0 ? reader.text() : requireStatic(entry)
      headers.push([name, reader.text()])
    }
  }
  return headers
}

function requireStatic(entry: number): string {
  if (entry === 0 || entry > STATIC_ENTRIES) throw new Http2Error("a header of a table that was not agreed to")
  return entry >= 8 && entry <= 14 ? ":status" : ""
}

class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  peek(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw new Http2Error("headers that are cut off")
    return byte
  }

  #next(): number {
    const byte = this.peek()
    this.#at++
    return byte
  }

  /** A number that begins in the last bits of a byte, RFC 7541 section 5.1. */
  integer(bits: number): number {
    const most = 2 ** bits - 1
    let value = this.#next() & most
    if (value < most) return value
    for (let shift = 0; ; shift += 7) {
      const byte = this.#next()
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
      if (shift >= 21) throw new Http2Error("a number of headers that is too large")
    }
  }

  text(): string {
    const isHuffman = this.peek() >= 0x80
    const length = this.integer(7)
    const bytes = this.#bytes.subarray(this.#at, this.#at + length)
    if (bytes.length < length) throw new Http2Error("headers that are cut off")
    this.#at += length
    return decodeLatin1(isHuffman ? decodeHuffman(bytes) : bytes)
  }
}

/** What is left at the end are the first bits of the end of a text: ones, fewer than 8. */
function decodeHuffman(bytes: Uint8Array): Uint8Array {
  const found: number[] = []
  let code = 1
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + ((byte >> bit) & 1)
      const symbol = symbols.get(code)
      if (symbol === undefined) continue
      if (symbol === END_OF_TEXT) throw new Http2Error("a text of headers with an end inside")
      found.push(symbol)
      code = 1
    }
  }
  const isPadding = code < 2 ** 8 && (code & (code + 1)) === 0
  if (!isPadding) throw new Http2Error("a text of headers that is cut off")
  return Uint8Array.from(found)
}
