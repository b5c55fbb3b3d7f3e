import { u32 } from "../netlink/mod.ts"
import type { DataType } from "./data-types.ts"
import type { NamedSet } from "./rule-set.ts"
import { commentEntry, encodeUserdata, type UserdataEntry } from "./userdata.ts"

/** `NFTNL_UDATA_SET_*`, libnftnl `udata.h` */
const KEY_BYTE_ORDER = 0
const DATA_BYTE_ORDER = 1
const KEY_TYPEOF = 3
const DATA_TYPEOF = 4
const DATA_INTERVAL = 6
const COMMENT = 7

/** The entry of a concatenation: `EXPR_CONCAT`, of nothing in particular. */
const concatenation = () =>
  encodeUserdata([
    { type: 0, value: u32.encode(13) },
    { type: 1, value: new Uint8Array(0) },
  ])

/** The user data of a set or map, as `nft` writes it: how to read the numbers in keys and values, and the comment. */
export function setUserdata({ key, value, comment }: NamedSet): Uint8Array {
  const types = value === "verdict" ? [] : value
  const entries: UserdataEntry[] = [{ type: KEY_BYTE_ORDER, value: u32.encode(byteOrder(key)) }]
  if (types) entries.push({ type: DATA_BYTE_ORDER, value: u32.encode(byteOrder(types)) })
  if (key.length > 1) entries.push({ type: KEY_TYPEOF, value: concatenation() })
  if (types && types.length > 1) entries.push({ type: DATA_TYPEOF, value: concatenation() })
  if (types) entries.push({ type: DATA_INTERVAL, value: u32.encode(0) })
  if (comment !== undefined) entries.push(commentEntry(comment, COMMENT))
  return encodeUserdata(entries)
}

function byteOrder(types: readonly DataType[]): DataType["byteOrder"] {
  const [only, ...more] = types
  return only && more.length === 0 ? only.byteOrder : 0
}
