import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { isJsonObject, type JsonObject } from "../types/mod.ts"

/** The span of a call in a trace (W3C Trace Context). */
export interface FlightTrace {
  /** The trace ID: 32 hex digits. */
  readonly id: string
  /** The ID of this call's span: 16 hex digits. */
  readonly span: string
  readonly parent: string
}

/** The record of one call of a plugin: a line of the flight recorder. */
export interface FlightLine {
  /** The time at which the call began, ISO 8601 in UTC. */
  readonly time: string
  readonly plugin: string
  readonly verb: string
  readonly network?: string | undefined
  readonly container?: string | undefined
  readonly interface?: string | undefined
  readonly netns?: string | undefined
  /** The duration in milliseconds, from the first line of TypeScript to the end of the answer. */
  readonly ms: number
  /** The milliseconds of each stage: "input", "plugin", and "ipam", which is a part of "plugin". */
  readonly stages?: Readonly<Record<string, number>> | undefined
  readonly exitCode: number
  readonly ips?: readonly string[] | undefined
  /** The changes of the host, as `Undo` describes them. */
  readonly changes?: readonly string[] | undefined
  readonly code?: number | undefined
  readonly error?: string | undefined
  readonly trace?: FlightTrace | undefined
}

/** The number of bytes before the JSON: the checksum's hex digits and a blank. */
const HEAD = 9

/**
 * Encodes a line as a slot of the ring: checksum, JSON, blanks, newline. Shortens a line that does not fit: first the
 * changes, then the end of the error, then the result.
 */
export function encodeLine(line: FlightLine, sequence: number, bytes: number): Uint8Array {
  const slot = new Uint8Array(bytes).fill(0x20)
  slot[bytes - 1] = 0x0a
  let shortest = line
  for (let round = 0; round <= ROUNDS; round++) {
    const json = encodeUtf8(JSON.stringify({ seq: sequence, ...shortest }))
    if (json.length < bytes - HEAD) {
      slot.set(json, HEAD)
      slot.set(encodeUtf8(`${checksum(slot).toString(16).padStart(8, "0")} `))
      break
    }
    shortest = shortened(line, round)
  }
  return slot
}

/** The number of times that a line can be shortened, after which it always fits. */
const ROUNDS = 3

/** Returns a shortened line; higher rounds remove more. */
function shortened(line: FlightLine, round: number): FlightLine {
  const { changes, error, ...rest } = line
  const room = [400, 100, 48][round] ?? 0
  const short = { ...rest, changes: changes && [`${changes.length} changes`], error: error && cut(error, room) }
  if (round < ROUNDS - 1) return short
  const { ips, stages, trace, ...names } = short
  const cutNames = Object.entries(names).map(([key, value]) => [
    key,
    typeof value === "string" ? cut(value, 48) : value,
  ])
  return Object.fromEntries(cutNames) as FlightLine
}

/**
 * Returns the checksum of a slot from `WORDS_FROM` on: FNV-1a over words of 32 bits. One different word always changes
 * the checksum; several different words keep it once in four billion times. A CRC takes an interpreter four times as
 * long.
 */
function checksum(slot: Uint8Array): number {
  const words = new Uint32Array(slot.buffer, slot.byteOffset + WORDS_FROM, (slot.length - WORDS_FROM) >> 2)
  let sum = 0x811c9dc5
  for (const word of words) {
    if (word === BLANKS) continue
    sum = Math.imul(sum ^ word, 0x01000193)
  }
  return sum >>> 0
}

/** The offset of the first word that the checksum covers. The four characters before it are always ` {"s`. */
const WORDS_FROM = 12
/** Four blanks as a word of 32 bits. The rest of a slot is filled with blanks. */
const BLANKS = 0x20202020

/** Returns a text shortened to a number of characters, with "…" at the end. */
function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

/** Decodes a slot. Returns undefined for an empty slot, and if its checksum is wrong, as after an unfinished write. */
export function readSlot(slot: Uint8Array): { sequence: number; line: FlightLine } | undefined {
  const [, sum, json = ""] = /^([0-9a-f]{8}) (\{"s.*\}) *\n$/s.exec(decodeUtf8(slot)) ?? []
  if (sum === undefined || checksum(slot.slice()) !== Number.parseInt(sum, 16)) return undefined
  const value = tryParse(json)
  if (value === undefined || typeof value.seq !== "number" || typeof value.verb !== "string") return undefined
  const { seq, ...line } = value
  return { sequence: seq, line: line as unknown as FlightLine }
}

function tryParse(json: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
