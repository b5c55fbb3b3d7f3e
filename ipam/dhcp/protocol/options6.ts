import { bytes, concat, DecodeError, type Infer, u8, u16be, u32be, type WholeCodec } from "../../../pkg/netlink/mod.ts"
import { formatIp } from "../../../pkg/types/mod.ts"
import { decodeIfValid, decodeNames, pieces, printable, readable } from "./bytes.ts"

/** The options of a DHCPv6 message, in order. A code may occur more than once. */
export type Options6 = readonly (readonly [number, Uint8Array])[]

const ips = readable("addresses", (found) => pieces(found, 16)?.map(formatIp))
const names = readable("names", (found) => decodeNames(found, false))

/** An option IA_NA (RFC 8415, 21.4). */
export interface Association {
  iaid: number
  renewSeconds: number
  rebindSeconds: number
  options: Options6
}
const association: WholeCodec<Association> = {
  encode: ({ iaid, renewSeconds, rebindSeconds, options }) =>
    concat([u32be.encode(iaid), u32be.encode(renewSeconds), u32be.encode(rebindSeconds), encodeOptions6(options)]),
  decode: (found) => ({
    iaid: u32be.decode(found.subarray(0, 4)),
    renewSeconds: u32be.decode(found.subarray(4, 8)),
    rebindSeconds: u32be.decode(found.subarray(8, 12)),
    options: decodeOptions6(found.subarray(12)),
  }),
}

/** An option IA Address (RFC 8415, 21.6). */
export interface Address6 {
  ip: Uint8Array
  preferredSeconds: number
  validSeconds: number
  options: Options6
}
const address: WholeCodec<Address6> = {
  encode: ({ ip, preferredSeconds, validSeconds, options }) =>
    concat([ip, u32be.encode(preferredSeconds), u32be.encode(validSeconds), encodeOptions6(options)]),
  decode: (found) => ({
    ip: found.slice(0, 16),
    preferredSeconds: u32be.decode(found.subarray(16, 20)),
    validSeconds: u32be.decode(found.subarray(20, 24)),
    options: decodeOptions6(found.subarray(24)),
  }),
}

/** A status code (RFC 8415, 21.13). */
const status = readable("status", (found) => ({
  code: u16be.decode(found.subarray(0, 2)),
  message: printable(found.subarray(2)),
}))

/** The server addresses in an NTP option: its suboption 1 (RFC 5908). */
const ntpServers = readable("servers", (found) =>
  decodeOptions6(found).flatMap(([code, value]) => (code === 1 && value.length === 16 ? formatIp(value) : [])),
)

/** The options with their codes: RFC 8415, 3646 (23, 24), 4075 (31), 5908 (56). */
const optionTable6 = {
  clientId: [1, bytes],
  serverId: [2, bytes],
  association: [3, association],
  address: [5, address],
  request: [6, bytes],
  preference: [7, u8],
  elapsed: [8, u16be],
  status: [13, status],
  nameservers: [23, ips],
  search: [24, names],
  sntp: [31, ips],
  ntp: [56, ntpServers],
} as const

type OptionName = keyof typeof optionTable6
type OptionValue<N extends OptionName> = Infer<(typeof optionTable6)[N][1]>

/** Returns all values of an option that can be decoded. */
export function options6Of<N extends OptionName>(options: Options6, key: N): OptionValue<N>[] {
  const [code, codec] = optionTable6[key]
  return options.flatMap(([found, value]) => {
    const decoded = found === code ? decodeIfValid(codec as WholeCodec<OptionValue<N>>, value) : undefined
    return decoded === undefined ? [] : [decoded]
  })
}

/** Returns the first value of an option that can be decoded, or undefined if none exists. */
export function option6Of<N extends OptionName>(options: Options6, key: N): OptionValue<N> | undefined {
  return options6Of(options, key)[0]
}

export function option6<N extends OptionName>(key: N, value: OptionValue<N>): readonly [number, Uint8Array] {
  const [code, codec] = optionTable6[key]
  return [code, (codec as WholeCodec<OptionValue<N>>).encode(value)]
}

/** Encodes options: code, length, value (RFC 8415, 21.1). */
export function encodeOptions6(options: Options6): Uint8Array {
  return concat(options.flatMap(([code, value]) => [u16be.encode(code), u16be.encode(value.length), value]))
}

/** Decodes a field of options. Throws `DecodeError` if an option exceeds the field. */
export function decodeOptions6(field: Uint8Array): (readonly [number, Uint8Array])[] {
  const options: (readonly [number, Uint8Array])[] = []
  for (let at = 0; at < field.length; ) {
    const length = u16be.get(field, at + 2)
    const end = at + 4 + length
    if (at + 4 > field.length || end > field.length) throw new DecodeError(`an option exceeds the field`)
    options.push([u16be.get(field, at), field.subarray(at + 4, end)])
    at = end
  }
  return options
}
