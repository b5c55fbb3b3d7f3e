import { decodeLatin1, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import {
  bytes,
  concat,
  DecodeError,
  type Infer,
  RouteScope,
  u8,
  u16be,
  u32be,
  type WholeCodec,
} from "../../../pkg/netlink/mod.ts"
import { type Cidr, formatCidr, formatIp, networkOf, parseIp, type Route } from "../../../pkg/types/mod.ts"
import { checkName, decodeIfValid, decodeNames, pieces, printable, readable } from "./bytes.ts"

/** The options of a message: bytes by code. The parts of a long option are joined (RFC 3396). */
export type Options = ReadonlyMap<number, Uint8Array>

const PAD = 0
const END = 255

const ip: WholeCodec<string> = {
  encode: (value) => parseIp(value) ?? new Uint8Array(4),
  decode(found) {
    if (found.length !== 4) throw new DecodeError(`${found.length} bytes are not an address`)
    return formatIp(found)
  },
}
const ips = readable("addresses", (found) => pieces(found, 4)?.map(formatIp))
const words = readable("text", (found) => printable(found))
const name = readable("name", (found) => checkName(decodeLatin1(found).replace(/\0+$/, "")))
const names = readable("names", (found) => decodeNames(found, true))

/** The options with their codes: RFC 2132, 3397 (119), 3442 (121), 3004 (77). */
const optionTable = {
  subnetMask: [1, ip],
  routers: [3, ips],
  nameservers: [6, ips],
  hostname: [12, name],
  domain: [15, name],
  mtu: [26, u16be],
  staticRoutes: [33, readable("static routes", decodeStaticRoutes)],
  ntp: [42, ips],
  requestedAddress: [50, ip],
  leaseSeconds: [51, u32be],
  overload: [52, u8],
  messageType: [53, u8],
  server: [54, ip],
  parameters: [55, bytes],
  message: [56, words],
  maxSize: [57, u16be],
  renewSeconds: [58, u32be],
  rebindSeconds: [59, u32be],
  vendorClass: [60, bytes],
  clientId: [61, bytes],
  userClass: [77, bytes],
  search: [119, names],
  classlessRoutes: [121, readable("classless routes", decodeClasslessRoutes)],
} as const satisfies Record<
  string,
  readonly [number, WholeCodec<never> | WholeCodec<string> | WholeCodec<number> | WholeCodec<unknown>]
>

type OptionName = keyof typeof optionTable
type OptionValue<N extends OptionName> = Infer<(typeof optionTable)[N][1]>

/** Returns the value of an option, or undefined if it is missing or its bytes cannot be decoded. */
export function optionOf<N extends OptionName>(options: Options, key: N): OptionValue<N> | undefined {
  const [code, codec] = optionTable[key]
  const found = options.get(code)
  return found && decodeIfValid(codec as WholeCodec<OptionValue<N>>, found)
}

export function option<N extends OptionName>(key: N, value: OptionValue<N>): readonly [number, Uint8Array] {
  const [code, codec] = optionTable[key]
  return [code, (codec as WholeCodec<OptionValue<N>>).encode(value)]
}

/** Encodes options by ascending code, like upstream, and the end option. Splits values over 255 bytes (RFC 3396). */
export function encodeOptions(options: Options): Uint8Array {
  const parts: Uint8Array[] = []
  for (const code of Array.from(options.keys()).sort((a, b) => a - b)) {
    const value = options.get(code) ?? new Uint8Array()
    for (let at = 0; at === 0 || at < value.length; at += 255) {
      const part = value.subarray(at, at + 255)
      parts.push(Uint8Array.of(code, part.length), part)
    }
  }
  return concat([...parts, Uint8Array.of(END)])
}

/**
 * Reads a field of options into `found`, and joins parts (RFC 3396, 7). Returns false if an option exceeds the field.
 */
export function readOptions(field: Uint8Array, found: Map<number, Uint8Array>): boolean {
  for (let at = 0; at < field.length; ) {
    const code = field[at++]
    if (code === END) return true
    if (code === undefined || code === PAD) continue
    const length = field[at++]
    if (length === undefined || at + length > field.length) return false
    const value = field.subarray(at, at + length)
    const before = found.get(code)
    found.set(code, before ? concat([before, value]) : value)
    at += length
  }
  return true
}

/** Decodes classless routes (RFC 3442): prefix length, the significant bytes of the prefix, router. */
function decodeClasslessRoutes(found: Uint8Array): Route[] | undefined {
  const routes: Route[] = []
  for (let at = 0; at < found.length; ) {
    const prefix = found[at++] ?? 0
    const size = Math.ceil(prefix / 8)
    if (prefix > 32 || at + size + 4 > found.length) return undefined
    const destination = new Uint8Array(4)
    destination.set(found.subarray(at, at + size))
    at += size
    routes.push(routeVia({ ip: destination, prefix }, found.subarray(at, at + 4)))
    at += 4
  }
  return routes.length > 0 ? routes : undefined
}

/** Returns a route for a lease. A router of 0.0.0.0 means a route on the link. */
function routeVia(destination: Cidr, router: Uint8Array): Route {
  const dst = formatCidr({ ...destination, ip: networkOf(destination) })
  return router.every((byte) => byte === 0) ? routeOnLink(dst) : { dst, gw: formatIp(router) }
}

/** Returns a route on the link in upstream's form. A route without `gw` would get the gateway of the address. */
export function routeOnLink(dst: string): Route {
  return { dst, gw: "0.0.0.0", scope: RouteScope.Link }
}

/** Reports whether a route has no router. */
export function isOnLink({ scope }: Route): boolean {
  return scope === RouteScope.Link
}

/**
 * Decodes static routes (RFC 2132, 5.8): pairs of destination and router. Each route gets the prefix length of its
 * destination's class. Omits 0.0.0.0 and destinations without a class.
 */
function decodeStaticRoutes(found: Uint8Array): Route[] | undefined {
  const routes: Route[] = []
  for (const pair of pieces(found, 8) ?? []) {
    const first = pair[0] ?? 0
    if (first === 0 || first >= 224) continue
    routes.push(routeVia({ ip: pair.slice(0, 4), prefix: first < 128 ? 8 : first < 192 ? 16 : 24 }, pair.subarray(4)))
  }
  return routes.length > 0 ? routes : undefined
}

/** Returns the bytes of a user class option (77): classes of 1 to 255 bytes, each after its length (RFC 3004). */
export function encodeUserClass(classes: readonly string[]): Uint8Array {
  return concat(classes.map(encodeUtf8).flatMap((value) => [Uint8Array.of(value.length), value]))
}
