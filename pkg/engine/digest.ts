import { sha256 as sha256Bytes, sha512 as sha512Bytes } from "@noble/hashes/sha2.js"
import { engine } from "#engine"

/** Returns the SHA-256 (FIPS 180-4) of a text's UTF-8 in hexadecimal. */
export function sha256(text: string): string {
  return hex(sha256Bytes(engine.encodeUtf8(text)))
}

/** Returns the SHA-512 (FIPS 180-4) of a text's UTF-8 in hexadecimal. */
export function sha512(text: string): string {
  return hex(sha512Bytes(engine.encodeUtf8(text)))
}

function hex(bytes: Uint8Array): string {
  let text = ""
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0")
  return text
}

/** Returns the CRC-32 (IEEE 802.3) of a text's UTF-8, like `crc32(1)` and zlib. */
export function crc32(text: string): number {
  return engine.crc32(engine.encodeUtf8(text))
}
