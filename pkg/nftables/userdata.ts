import { concat, text, u32 } from "../netlink/mod.ts"
import type { DataType } from "./data-types.ts"
import type { Element, NamedSet } from "./rule-set.ts"

/**
 * An entry of the user data, in which `nft` stores its own information about an object. An entry consists of a type and
 * a length of one byte each, and a value (libnftnl `udata.h`). The kernel stores the bytes without interpreting them.
 */
interface UserdataEntry {
  type: number
  value: Uint8Array
}

/** `NFTNL_UDATA_*_COMMENT` of tables, chains, rules and elements. Sets have another number. */
export const COMMENT = 0
/** A type of entry that `nft` does not use. */
const NOTE = 200

/** The maximum length of a comment in `nft`, without the NUL (`NFTNL_UDATA_COMMENT_MAXLEN` is 128). */
export const COMMENT_MAX_BYTES = 127

function encodeUserdata(entries: readonly UserdataEntry[]): Uint8Array {
  const parts: Uint8Array[] = []
  for (const { type, value } of entries) {
    if (value.length > 255) throw new RangeError(`${value.length} bytes of user data: at most 255 fit`)
    parts.push(new Uint8Array([type, value.length]), value)
  }
  return concat(parts)
}

/** Returns the user data with the comment of a table, chain, rule or element; undefined without a comment. */
export function commentUserdata(comment: string | undefined): Uint8Array | undefined {
  return comment === undefined ? undefined : encodeUserdata([commentEntry(comment)])
}

/** Returns the user data of an element, with its comment and its note; undefined without both. */
export function elementUserdata({ comment, note }: Pick<Element, "comment" | "note">): Uint8Array | undefined {
  if (note === undefined) return commentUserdata(comment)
  const noted = { type: NOTE, value: text.encode(note) }
  return encodeUserdata(comment === undefined ? [noted] : [commentEntry(comment), noted])
}

/** Returns the note in an element's user data; `undefined` if it has none. */
export function readNote(userdata: Uint8Array | undefined): string | undefined {
  return readEntry(userdata, NOTE)
}

/** Returns the comment in the user data of a table, chain, rule or element; undefined if it has none. */
export function readComment(userdata: Uint8Array | undefined): string | undefined {
  return readEntry(userdata, COMMENT)
}

function readEntry(userdata: Uint8Array | undefined, sought: number): string | undefined {
  if (userdata === undefined) return undefined
  let found: string | undefined
  for (let at = 0; at < userdata.length; ) {
    const end = at + 2 + (userdata[at + 1] ?? userdata.length)
    if (end > userdata.length) return undefined // other programs may store data in another format
    if (userdata[at] === sought) found ??= text.decode(userdata.subarray(at + 2, end))
    at = end
  }
  return found
}

/** Returns the entry for a comment. Throws `RangeError` if the comment is longer than `nft` allows. */
function commentEntry(comment: string, type = COMMENT): UserdataEntry {
  const value = text.encode(comment)
  if (value.length > COMMENT_MAX_BYTES + 1) {
    throw new RangeError(`A comment of ${value.length - 1} bytes: nft shows at most ${COMMENT_MAX_BYTES}`)
  }
  return { type, value }
}

/** `NFTNL_UDATA_SET_*`: the types of entries in a set's user data. */
const KEY_BYTE_ORDER = 0
const DATA_BYTE_ORDER = 1
const KEY_TYPEOF = 3
const DATA_TYPEOF = 4
const DATA_INTERVAL = 6
const SET_COMMENT = 7

/** Returns the entry that describes a concatenation: an empty `EXPR_CONCAT`. */
const concatenation = () =>
  encodeUserdata([
    { type: 0, value: u32.encode(13) },
    { type: 1, value: new Uint8Array(0) },
  ])

/** Returns the user data of a set or map like that of `nft`: the byte order of its keys and values, and the comment. */
export function setUserdata({ key, value, verdicts, comment }: NamedSet): Uint8Array {
  const entries: UserdataEntry[] = [{ type: KEY_BYTE_ORDER, value: u32.encode(byteOrder(key)) }]
  if (value) entries.push({ type: DATA_BYTE_ORDER, value: u32.encode(byteOrder(value)) })
  if (verdicts) entries.push({ type: DATA_BYTE_ORDER, value: u32.encode(0) })
  if (key.length > 1) entries.push({ type: KEY_TYPEOF, value: concatenation() })
  if (value && value.length > 1) entries.push({ type: DATA_TYPEOF, value: concatenation() })
  if (value || verdicts) entries.push({ type: DATA_INTERVAL, value: u32.encode(0) })
  if (comment !== undefined) entries.push(commentEntry(comment, SET_COMMENT))
  return encodeUserdata(entries)
}

function byteOrder(types: readonly DataType[]): DataType["byteOrder"] {
  const [only, ...more] = types
  return only && more.length === 0 ? only.byteOrder : 0
}
