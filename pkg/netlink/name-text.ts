import { encodeUtf8 } from "../engine/mod.ts"
import { type Codec, codec, text } from "./codec.ts"

/** A low surrogate without a high one before it, which no UTF-8 is decoded to, stands for a byte from 0x80 on. */
const ESCAPED_BYTE = 0xdc00

/**
 * The name of a link. A container may choose any bytes for it: where they are no UTF-8, each from 0x80 on becomes a lone surrogate,
 * such as U+DCFF for 0xff, so that the kernel gets back the bytes that it has.
 */
export const nameText: Codec<string> = codec(
  (value, to) => {
    const start = to.end
    text.append(value, to)
    if (to.end - start === value.length + 1) return // ASCII
    const units = Array.from(value, (character) => character.charCodeAt(0))
    const isEscaped = (unit: number) => unit > ESCAPED_BYTE + 0x7f && unit <= ESCAPED_BYTE + 0xff
    if (!units.some(isEscaped) || !units.every((unit) => unit < 0x80 || isEscaped(unit))) return
    to.end = start
    to.add(Uint8Array.from([...units, 0], (unit) => unit & 0xff))
  },
  (from, start, end) => {
    const name = text.read(from, start, end)
    if (!name.includes("\ufffd")) return name
    const raw = [...from.subarray(start, end)]
    if (raw.includes(0)) raw.length = raw.indexOf(0)
    const encoded = encodeUtf8(name)
    if (encoded.length === raw.length && raw.every((byte, at) => byte === encoded[at])) return name // it has that character
    return raw.map((byte) => String.fromCharCode(byte < 0x80 ? byte : ESCAPED_BYTE + byte)).join("")
  },
)
