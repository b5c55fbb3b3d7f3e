import { align, HEADER, lengthAt, typeAt } from "./attrs.ts"
import type { WholeCodec } from "./codec.ts"
import { linkAttributes, linkHeader, linkInfo } from "./link-table.ts"

/** The largest length that an attribute's header can hold. */
export const MAX_LENGTH = 0xffff
const IFLA_LINKINFO = 18
const IFLA_PROP_LIST = 52
const IFLA_ALT_IFNAME = 53
/** `IFLA_INFO_DATA` of `IFLA_LINKINFO`: the settings of a kind. */
const IFLA_INFO_DATA = 2

/** Returns the attributes in a message so long that the length of an attribute may be wrong. Throws `DecodeError`. */
export function decodeLongLink<A extends object>(payload: Uint8Array, table: WholeCodec<A>): A {
  return decodeAttributes(payload.subarray(linkHeader.size), table)
}

/**
 * Returns the attributes of a link. The kernel writes a nest of more than 64 KiB with its length cut to 16 bits, and a
 * container can create such nests: a macvlan with 6,000 source MACs, a VLAN with as many priorities, and before Linux
 * 5.18 alternative names. After the wrong length follow bytes that the container chose, which look like attributes of
 * the kernel. They are not read: settings that may be so long are unknown, as is everything after them except the kind.
 * Throws `DecodeError`.
 */
export function decodeAttributes<A extends object>(found: Uint8Array, table: WholeCodec<A>): A {
  for (let at = 0; found.length - at > MAX_LENGTH; at = endAt(found, at)) {
    const type = typeAt(found, at)
    if (type === IFLA_PROP_LIST) return withLongList(found, at, table)
    if (type !== IFLA_LINKINFO) continue
    const kindEnd = endAt(found, at + HEADER)
    if (typeAt(found, kindEnd) !== IFLA_INFO_DATA) continue
    const { kind } = linkInfo.decode(found.subarray(at + HEADER, kindEnd))
    return { ...table.decode(found.subarray(0, at)), linkInfo: { kind } }
  }
  return table.decode(found)
}

/** The list ends at the first attribute that is not a name; names occur only in this list, not at the top level. */
function withLongList<A extends object>(found: Uint8Array, start: number, table: WholeCodec<A>): A {
  const altNames: string[] = []
  let at = start + HEADER
  for (; at + HEADER <= found.length && typeAt(found, at) === IFLA_ALT_IFNAME; at = endAt(found, at)) {
    altNames.push(linkAttributes.decode(found.subarray(at, endAt(found, at))).altName ?? "")
  }
  return { ...table.decode(found.subarray(0, start)), ...table.decode(found.subarray(at)), altNames }
}

/** The offset of the next attribute. Throws `DecodeError` when the length of this one is wrong. */
function endAt(found: Uint8Array, at: number): number {
  return at + align(lengthAt(found, at))
}
