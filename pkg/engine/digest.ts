import { sha256 as sha256Bytes, sha512 as sha512Bytes } from "@noble/hashes/sha2.js"
import { engine } from "#engine"

/** SHA-256 of a text's UTF-8 (FIPS 180-4), hexadecimal. */
export function sha256(text: string): string {
  return hex(sha256Bytes(engine.encodeUtf8(text)))
}

/** SHA-512 of a text's UTF-8 (FIPS 180-4), hexadecimal. */
export function sha512(text: string): string {
  return hex(sha512Bytes(engine.encodeUtf8(text)))
}

function hex(bytes: Uint8Array): string {
  let text = ""
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0")
  return text
}

/** CRC-32 of a text's UTF-8 (IEEE 802.3), like `crc32(1)` and zlib. */
export function crc32(text: string): number {
  return engine.crc32(engine.encodeUtf8(text))
}
