import { readFileSync } from "node:fs"
import { constants } from "node:os"
import { bytesOf, integer, rawBytes } from "./calls.ts"
import type { Engine } from "./engine.ts"

/** The part of the engine interface that Bun and Node share: text, the clock, the environment. */

const decode = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

/** Returns the texts in a file of proc(5) in which each text ends with a NUL. */
export function textsOf(file: string): string[] {
  const bytes = readFileSync(file)
  const texts: string[] = []
  for (let start = 0, end = 0; end !== -1 && start < bytes.length; start = end + 1) {
    end = bytes.indexOf(0, start)
    texts.push(decode(bytes.subarray(start, end === -1 ? bytes.length : end)))
  }
  return texts
}

export const textEngine: Pick<
  Engine,
  "encodeUtf8" | "decodeUtf8" | "decodeLatin1" | "crc32" | "findBytes" | "monotonicMs"
> = {
  encodeUtf8(value) {
    if (typeof value !== "string") throw new TypeError("expected a text")
    return new TextEncoder().encode(value)
  },
  decodeUtf8: (bytes) => decode(rawBytes(bytesOf(bytes))),
  decodeLatin1: (bytes) => Buffer.from(rawBytes(bytesOf(bytes))).toString("latin1"),
  crc32: (bytes) => crc32(rawBytes(bytesOf(bytes))),
  findBytes(bytes, sought, from) {
    const [all, part] = [rawBytes(bytesOf(bytes)), rawBytes(bytesOf(sought))]
    integer(from, 0, 2 ** 31 - 1)
    return from > all.length ? -1 : Buffer.from(all.buffer, all.byteOffset, all.length).indexOf(part, from)
  },
  monotonicMs: () => performance.now(),
}

function crc32(bytes: Uint8Array): number {
  let crc = -1
  for (const byte of bytes) crc = (crc >>> 8) ^ (crcTable[(crc ^ byte) & 0xff] ?? 0)
  return ~crc >>> 0
}

const crcTable = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

/** The environment as received. process.env drops duplicates, and on Bun includes an .env file's content. */
export const environment = () => textsOf("/proc/self/environ")

/** The longest time for setTimeout, 24 days. With a longer time, setTimeout calls the function immediately. */
export const LONGEST_MS = 2 ** 31 - 1

export const loopEngine: Pick<Engine, "later" | "onSignal" | "newStop"> = {
  later(ms, act) {
    const timer = setTimeout(act, Math.min(ms, LONGEST_MS))
    return () => clearTimeout(timer)
  },
  onSignal(signal, act) {
    const [name = ""] = Object.entries(constants.signals).find(([, number]) => number === signal) ?? []
    process.on(name, act)
    return () => void process.off(name, act)
  },
  newStop: () => new AbortController(),
}

/** Encodes base64 by RFC 4648, section 4. */
export const encodeBase64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

/** Decodes base64. Returns `undefined` for a text that is not base64. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = Buffer.from(text, "base64")
  return bytes.toString("base64") === text ? new Uint8Array(bytes) : undefined
}
