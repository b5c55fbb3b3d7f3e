import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { type FlightLine, readSlot } from "./line.ts"

/** The path of the flight recorder's file. Calls are recorded if it exists. */
export const FLIGHT_FILE = "/run/cni/flight-recorder"

/** The size in bytes of a line, and of the head. */
export const SLOT_BYTES = 1024
/** The number of lines in the file. */
export const RING_SLOTS = 1024
/** The size of the file in bytes, which never changes. */
export const RING_BYTES = SLOT_BYTES * (RING_SLOTS + 1)

const MAGIC = "cni-flight-recorder 1"
/** The size of the used part of the head: the magic, a blank, 12 digits. */
export const HEAD_BYTES = MAGIC.length + 13

export function encodeHead(next: number): Uint8Array {
  return encodeUtf8(`${MAGIC} ${String(next).padStart(12, "0")}`)
}

/** Returns the number of the next line, or undefined if the bytes are not a flight recorder's file. */
export function readHead(bytes: Uint8Array): number | undefined {
  const text = decodeUtf8(bytes.subarray(0, HEAD_BYTES))
  const digits = text.slice(MAGIC.length + 1)
  return text.startsWith(`${MAGIC} `) && /^\d{12}$/.test(digits) ? Number(digits) : undefined
}

/** Returns the offset in the file of the line with this number. */
export function slotOffset(sequence: number): number {
  return SLOT_BYTES * (1 + (sequence % RING_SLOTS))
}

/** Returns the bytes of a new file. */
export function emptyRing(): Uint8Array {
  const ring = new Uint8Array(RING_BYTES).fill(0x20)
  for (let end = SLOT_BYTES - 1; end < RING_BYTES; end += SLOT_BYTES) ring[end] = 0x0a
  ring.set(encodeHead(0))
  return ring
}

/** A line of the flight recorder, with its number. */
export interface Numbered {
  readonly sequence: number
  readonly line: FlightLine
}

/** Returns the lines, oldest first, without one being written; `undefined` for another file's bytes. */
export function readRing(bytes: Uint8Array): Numbered[] | undefined {
  if (readHead(bytes) === undefined) return undefined
  const found: Numbered[] = []
  for (let at = SLOT_BYTES; at + SLOT_BYTES <= bytes.length; at += SLOT_BYTES) {
    const slot = bytes[at] === 0x20 ? undefined : readSlot(bytes.subarray(at, at + SLOT_BYTES))
    if (slot) found.push(slot)
  }
  return found.sort((a, b) => a.sequence - b.sequence)
}
