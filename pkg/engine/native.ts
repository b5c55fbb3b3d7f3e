import type { Engine, ExactJson, Exhaustion } from "./engine.ts"
import { findPosition } from "./positions.ts"

/** The functions of the native host (`host/door.c`), which assigns them to `globalThis` before this code runs. */
declare const host: Engine & { positions(): string }

export const engine: Engine = host

/** The engine's own JSON, which keeps the digits of numbers. */
export const json = JSON as unknown as ExactJson

/**
 * Returns the resource that has run out, if this caused the error. Such an error has a message and no code, or is null
 * if there is no memory even for the message.
 */
export function exhaustion(error: unknown): Exhaustion | undefined {
  if (error === null) return "memory"
  if (!(error instanceof Error)) return undefined
  if (error.name === "InternalError" && error.message === "out of memory") return "memory"
  return error instanceof RangeError && error.message === "Maximum call stack size exceeded" ? "stack" : undefined
}

/** Returns "pkg/ip/veth.ts:32" for a position in a bundle, counted from 1; undefined for code without a source. */
export function locate(bundle: string, line: number, column: number): string | undefined {
  return findPosition(host.positions(), bundle, line, column)
}

/** Encodes base64 by RFC 4648, section 4. */
export const encodeBase64 = (bytes: Uint8Array) => bytes.toBase64()

/** Decodes base64. Returns `undefined` for a text that is not base64. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const bytes = Uint8Array.fromBase64(text, { lastChunkHandling: "strict" })
    return bytes.toBase64() === text ? bytes : undefined
  } catch {
    return undefined
  }
}
