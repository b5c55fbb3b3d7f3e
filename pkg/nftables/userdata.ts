import { concat, DecodeError, text, u32 } from "../netlink/mod.ts"

/**
 * What `nft` keeps beside an object for its own use: entries of type, length and value, a byte each for the first two
 * (libnftnl `udata.h`). The kernel stores the bytes unseen.
 */
export interface UserdataEntry {
  type: number
  value: Uint8Array
}

/** `NFTNL_UDATA_*_COMMENT` is 0 for tables, chains, rules and elements; sets have other things too. */
const COMMENT = 0
const SET_KEY_BYTE_ORDER = 0
const SET_DATA_BYTE_ORDER = 1
const SET_COMMENT = 7

/** Bytes of a comment that `nft` still shows, without the NUL at its end (`NFTNL_UDATA_COMMENT_MAXLEN` is 128). */
export const COMMENT_MAX_BYTES = 127

/** How a set's numbers are to be read: not at all, in the machine's order, or in network order. */
export type ByteOrder = 0 | 1 | 2

export function encodeUserdata(entries: readonly UserdataEntry[]): Uint8Array {
  return concat(
    entries.flatMap(({ type, value }) => {
      if (value.length > 255) throw new RangeError(`${value.length} bytes of user data: at most 255 fit`)
      return [Uint8Array.of(type, value.length), value]
    }),
  )
}

/** The entries in these bytes. Throws `DecodeError` when a length is wrong. */
export function decodeUserdata(bytes: Uint8Array): UserdataEntry[] {
  const entries: UserdataEntry[] = []
  for (let at = 0; at < bytes.length; ) {
    const [type = 0, length = bytes.length] = bytes.subarray(at, at + 2)
    if (at + 2 + length > bytes.length) {
      throw new DecodeError(`user data at byte ${at} says it has ${length} bytes of the ${bytes.length - at} left`)
    }
    entries.push({ type, value: bytes.subarray(at + 2, at + 2 + length) })
    at += 2 + length
  }
  return entries
}

/** The user data that is a comment on a table, chain, rule or element. Undefined for no comment. */
export function commentUserdata(comment: string | undefined): Uint8Array | undefined {
  return comment === undefined ? undefined : encodeUserdata([commentEntry(COMMENT, comment)])
}

/** The user data of a set or map: byte orders as `nft` wants to know them, and the comment. */
export function setUserdata(key: ByteOrder, data: ByteOrder | undefined, comment: string | undefined): Uint8Array {
  const entries: UserdataEntry[] = [{ type: SET_KEY_BYTE_ORDER, value: u32.encode(key) }]
  if (data !== undefined) entries.push({ type: SET_DATA_BYTE_ORDER, value: u32.encode(data) })
  if (comment !== undefined) entries.push(commentEntry(SET_COMMENT, comment))
  return encodeUserdata(entries)
}

/** The comment in the user data of a table, chain, rule or element; undefined when there is none. */
export function readComment(userdata: Uint8Array | undefined): string | undefined {
  if (userdata === undefined) return undefined
  const found = decodeUserdata(userdata).find(({ type }) => type === COMMENT)
  return found && text.decode(found.value)
}

function commentEntry(type: number, comment: string): UserdataEntry {
  const value = text.encode(comment)
  if (value.length > COMMENT_MAX_BYTES + 1) {
    throw new RangeError(`A comment of ${value.length - 1} bytes: nft shows at most ${COMMENT_MAX_BYTES}`)
  }
  return { type, value }
}
