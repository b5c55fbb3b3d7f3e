import { encodeUtf8 } from "../engine/mod.ts"
import { type Codec, text } from "./codec.ts"

/** A low surrogate without a high one before it, which no UTF-8 is decoded to, stands for a byte from 0x80 on. */
const ESCAPED_BYTE = 0xdc00

/**
 * The name of a link. A container may choose any bytes for it: where they are no UTF-8, each from 0x80 on becomes a lone surrogate,
 * such as U+DCFF for 0xff, so that the kernel gets back the bytes that it has.
 */
export const nameText: Codec<string> = {
  encode(value) {
    const encoded = text.encode(value)
    const units = Array.from(value, (character) => character.charCodeAt(0))
    const isEscaped = (unit: number) => unit > ESCAPED_BYTE + 0x7f && unit <= ESCAPED_BYTE + 0xff
    if (!units.some(isEscaped) || !units.every((unit) => unit < 0x80 || isEscaped(unit))) return encoded
    return Uint8Array.from([...units, 0], (unit) => unit & 0xff)
  },
  decode(found) {
    const name = text.decode(found)
    if (!name.includes("\ufffd")) return name
    const end = found.indexOf(0)
    const raw = [...(end === -1 ? found : found.subarray(0, end))]
    const encoded = encodeUtf8(name)
    if (encoded.length === raw.length && raw.every((byte, at) => byte === encoded[at])) return name // it has that character
    return raw.map((byte) => String.fromCharCode(byte < 0x80 ? byte : ESCAPED_BYTE + byte)).join("")
  },
}
