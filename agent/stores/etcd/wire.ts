import type { Identity } from "../../store.ts"

/**
 * The JSON of etcd's gateway: Protobuf's JSON form, https://protobuf.dev/programming-guides/json/. Bytes are base64, 64-bit integers are
 * text, and a member that has its default (0, false, empty) is absent. Readers throw `WireFault`.
 */

/** An answer that is not of etcd's form. */
export class WireFault extends Error {
  override readonly name = "WireFault"
}

/** A JSON object of the gateway. */
export type Message = Readonly<Record<string, unknown>>

/** One key of etcd, as `mvccpb.KeyValue` has it. */
export interface KeyValue {
  readonly key: string
  readonly value: string
  /** The revision of the last change of this key. */
  readonly modRevision: bigint
}

/** A part of a watch: what has changed, or a sign that nothing has. */
export interface WatchMessage {
  readonly at: Identity
  readonly changes: readonly { readonly isRemoval: boolean; readonly kv: KeyValue }[]
  /** Why etcd has ended the watch. */
  readonly canceled?: string
  /** The history before a revision no longer exists, and the watch would have begun there. */
  readonly isCompacted: boolean
}

/** Text as `bytes`. */
export function toBase64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64")
}

/** `bytes` as text; absent ones are "". */
function readBytes(from: Message, key: string): string {
  const value = from[key] ?? ""
  if (typeof value !== "string") throw new WireFault(`"${key}" is no base64`)
  return Buffer.from(value, "base64").toString("utf8")
}

/** `int64` and `uint64`, which may be beyond what a number holds; absent ones are 0. */
function readInt64(from: Message, key: string): bigint {
  const value = from[key] ?? "0"
  if (typeof value === "string" && /^-?\d{1,20}$/.test(value)) return BigInt(value)
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value)
  throw new WireFault(`"${key}" is no 64-bit integer`)
}

function readList(from: Message, key: string): unknown[] {
  const value = from[key] ?? []
  if (!Array.isArray(value)) throw new WireFault(`"${key}" is no list`)
  return value
}

/** A value that has to be an object. */
export function readMessage(value: unknown, what: string): Message {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new WireFault(`${what} is no object`)
  return value as Message
}

/** The text of an answer, which has to be one JSON object. */
export function parseMessage(text: string): Message {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new WireFault(`it is not JSON: ${JSON.stringify(text.slice(0, 60))}`)
  }
  return readMessage(value, "it")
}

/** `ResponseHeader`: which cluster answers, and its revision then. */
export function readIdentity(from: Message): Identity {
  const header = readMessage(from.header, '"header"')
  const cluster = readInt64(header, "cluster_id")
  if (cluster === 0n) throw new WireFault('"cluster_id" is absent')
  return { cluster: BigInt.asUintN(64, cluster).toString(16), revision: readInt64(header, "revision") }
}

function readKeyValue(value: unknown): KeyValue {
  const from = readMessage(value, '"kv"')
  return { key: readBytes(from, "key"), value: readBytes(from, "value"), modRevision: readInt64(from, "mod_revision") }
}

/** `RangeResponse`. */
export function readRange(from: Message): { at: Identity; kvs: KeyValue[]; more: boolean } {
  return { at: readIdentity(from), kvs: readList(from, "kvs").map(readKeyValue), more: from.more === true }
}

/** `TxnResponse`: whether the comparisons held, and the revision then, which is that of the change. */
export function readTxn(from: Message): { at: Identity; succeeded: boolean } {
  return { at: readIdentity(from), succeeded: from.succeeded === true }
}

/** `AuthenticateResponse`. */
export function readToken(from: Message): string {
  if (typeof from.token !== "string" || from.token === "") throw new WireFault('"token" is absent')
  return from.token
}

/** One line of a stream of `WatchResponse`; an error comes as `{"error": {"message": …}}`. */
export function readWatchMessage(line: string): WatchMessage {
  const message = parseMessage(line)
  if (message.error !== undefined) throw new WireFault(errorText(message) ?? "the stream has ended with an error")
  const result = readMessage(message.result, '"result"')
  const canceled = result.canceled === true ? String(result.cancel_reason ?? "without a reason") : undefined
  return {
    at: readIdentity(result),
    changes: readList(result, "events").map((value) => {
      const event = readMessage(value, "an event")
      return { isRemoval: event.type === "DELETE" || event.type === 1, kv: readKeyValue(event.kv) }
    }),
    ...(canceled !== undefined && { canceled }),
    isCompacted: readInt64(result, "compact_revision") > 0n,
  }
}

/** etcd's words in an error answer; `undefined` where the answer is not etcd's. */
export function errorText(from: Message): string | undefined {
  const error = from.error ?? from.message
  if (typeof error === "string") return error
  if (typeof error !== "object" || error === null) return undefined
  const { message } = error as Message
  return typeof message === "string" ? message : undefined
}
