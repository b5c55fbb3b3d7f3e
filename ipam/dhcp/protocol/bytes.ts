import { decodeLatin1 } from "../../../pkg/engine/mod.ts"
import { DecodeError, type WholeCodec } from "../../../pkg/netlink/mod.ts"

/** Returns bytes as hexadecimal digits, the format of the journal and of `ClientConfig`. */
export function toHex(bytes: Uint8Array): string {
  let digits = ""
  for (const byte of bytes) digits += (byte < 16 ? "0" : "") + byte.toString(16)
  return digits
}

/** Returns the bytes for hexadecimal digits, two for each byte. Throws `RangeError` for any other text. */
export function fromHex(digits: string): Uint8Array<ArrayBuffer> {
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) throw new RangeError(`"${digits}" is not hexadecimal`)
  const bytes = new Uint8Array(digits.length / 2)
  for (let at = 0; at < bytes.length; at++) bytes[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16)
  return bytes
}

/** Returns an option's text without the NUL that some servers append, and with "?" for all but printable ASCII. */
export function printable(bytes: Uint8Array): string {
  return decodeLatin1(bytes)
    .replace(/\0+$/, "")
    .replace(/[^ -~]/g, "?")
}

/** The syntax of a host or domain name. It excludes characters with a meaning in files such as resolv.conf(5). */
const nameSyntax = /^(?=.{1,253}$)[0-9a-z_](?:[0-9a-z_-]{0,62})(?:\.[0-9a-z_][0-9a-z_-]{0,62})*$/i

/** Returns a domain name without the dot at its end, or undefined for any other text. */
export function checkName(text: string): string | undefined {
  const name = text.replace(/\.$/, "")
  return nameSyntax.test(name) ? name : undefined
}

/**
 * Decodes a sequence of names in the format of DNS (RFC 1035, 4.1.4), for DHCPv4 `compressed` (RFC 3397). A pointer
 * must point to a position before its own name, so there are no loops. Returns undefined for bytes that are not names.
 */
export function decodeNames(bytes: Uint8Array, compressed: boolean): string[] | undefined {
  const names: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const found = decodeNameAt(bytes, at, compressed)
    if (!found) return undefined
    const name = checkName(found.labels.join("."))
    if (name !== undefined) names.push(name)
    at = found.end
  }
  return names
}

function decodeNameAt(bytes: Uint8Array, start: number, compressed: boolean) {
  const labels: string[] = []
  let end: number | undefined
  let segment = start
  for (let at = start, length = 0; length <= 255; ) {
    const size = bytes[at]
    if (size === undefined) return undefined
    if (size === 0) return { labels, end: end ?? at + 1 }
    if (size >= 0xc0) {
      const target = ((size & 0x3f) << 8) | (bytes[at + 1] ?? 0xff)
      if (!compressed || at + 1 >= bytes.length || target >= segment) return undefined
      end ??= at + 2
      at = segment = target
    } else {
      if (size > 63 || at + size >= bytes.length) return undefined
      labels.push(printable(bytes.subarray(at + 1, at + 1 + size)))
      length += size + 1
      at += size + 1
    }
  }
  return undefined
}

/** Returns the codec of a value that clients only receive. */
export function readable<T>(what: string, decode: (found: Uint8Array) => T | undefined): WholeCodec<T> {
  return {
    encode() {
      throw new RangeError(`Cannot send ${what}: only servers do`)
    },
    decode(found) {
      const value = decode(found)
      if (value === undefined) throw new DecodeError(`${found.length} bytes are not ${what}`)
      return value
    },
  }
}

export function decodeIfValid<T>(codec: Pick<WholeCodec<T>, "decode">, found: Uint8Array): T | undefined {
  try {
    return codec.decode(found)
  } catch (error) {
    if (error instanceof DecodeError) return undefined
    throw error
  }
}

/** Splits bytes into pieces of one size. Returns undefined if a rest remains, or if there are no bytes. */
export function pieces(bytes: Uint8Array, size: number): Uint8Array[] | undefined {
  if (bytes.length === 0 || bytes.length % size !== 0) return undefined
  const found: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += size) found.push(bytes.subarray(at, at + size))
  return found
}
