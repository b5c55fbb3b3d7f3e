import { align, HEADER, lengthAt, typeAt } from "./attrs.ts"
import type { WholeCodec } from "./codec.ts"
import { linkAttributes, linkHeader, linkInfo } from "./link-table.ts"

/** The largest length that fits into an attribute's header. */
export const MAX_LENGTH = 0xffff
const IFLA_LINKINFO = 18
const IFLA_PROP_LIST = 52
const IFLA_ALT_IFNAME = 53
/** `IFLA_INFO_DATA` in `IFLA_LINKINFO`: the settings that depend on the kind of the link. */
const IFLA_INFO_DATA = 2

/** Returns a link's attributes from a message so long that lengths are cut to 16 bits. Throws `DecodeError`. */
export function decodeLongLink<A extends object>(payload: Uint8Array, table: WholeCodec<A>): A {
  return decodeAttributes(payload.subarray(linkHeader.size), table)
}

/**
 * Returns the attributes of a link. The kernel cuts the length of a nested attribute of more than 64 KiB to 16 bits,
 * and a container can create such attributes: a macvlan with 6,000 source MACs, a VLAN with as many priorities, and
 * before Linux 5.18 alternative names. After the wrong length come bytes that the container chose, which look like
 * attributes of the kernel and must not be read. In such a message the settings of the kind, and all attributes after
 * them, are left out of the result. Throws `DecodeError`.
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

/**
 * Returns the attributes around a list of alternative names whose length is wrong. The list ends at the first attribute
 * that is not a name, because a name never occurs outside this list.
 */
function withLongList<A extends object>(found: Uint8Array, start: number, table: WholeCodec<A>): A {
  const altNames: string[] = []
  let at = start + HEADER
  for (; at + HEADER <= found.length && typeAt(found, at) === IFLA_ALT_IFNAME; at = endAt(found, at)) {
    altNames.push(linkAttributes.decode(found.subarray(at, endAt(found, at))).altName ?? "")
  }
  return { ...table.decode(found.subarray(0, start)), ...table.decode(found.subarray(at)), altNames }
}

/** Returns the offset of the next attribute. Throws `DecodeError` if the length of the attribute at `at` is wrong. */
function endAt(found: Uint8Array, at: number): number {
  return at + align(lengthAt(found, at))
}
