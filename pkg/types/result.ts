import { normalCidr, normalIp } from "./addresses.ts"
import { Decoder, decodeObject, type Member, member, present, readString, wrongType } from "./decode.ts"
import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A result of ADD in the layout of CNI 1.1.0, without its version. Plugins use this layout. Addresses are text in
 * normal form (`normalIp`): "10.1.2.3/24" for addresses with a prefix length, "10.1.2.1" for gateways. `decodeResult`
 * and `encodeResult` convert other versions.
 */
export interface Result {
  interfaces: Interface[]
  ips: IpConfig[]
  routes: Route[]
  dns: Dns
}

/** One interface of the attachment. `sandbox` is absent for interfaces of the host. */
export interface Interface {
  name: string
  mac?: string
  mtu?: number
  sandbox?: string
  socketPath?: string
  pciID?: string
}

/** One address. `interface` is an index into `Result.interfaces`. */
export interface IpConfig {
  address: string
  gateway?: string
  interface?: number
}

/** One route. `scope` and `table` are the kernel's numbers. A lower `priority` wins. */
export interface Route {
  dst: string
  gw?: string
  mtu?: number
  advmss?: number
  priority?: number
  table?: number
  scope?: number
}

/** Name resolution settings. CNI does not apply them; the runtime may. */
export interface Dns {
  nameservers?: string[]
  domain?: string
  search?: string[]
  options?: string[]
}

// Codecs that several layouts share. Encoders write keys in the order of upstream's declarations. Like upstream, they
// omit empty texts, empty lists, and a zero that means "not set".

const CIDR = 'an address like "192.0.2.1/24"'
const IP = 'an address like "192.0.2.1"'

const text: Member = {
  expected: "a string",
  read: (value) => (typeof value === "string" ? value : undefined),
  absent: "",
}
const integer: Member = { expected: "an integer", read: (value) => (Number.isSafeInteger(value) ? value : undefined) }
const count: Member = { ...integer, absent: 0 }
const cidr = addressMember(CIDR, normalCidr)
const ip = addressMember(IP, normalIp)

function addressMember(expected: string, normal: (text: string) => string | undefined): Member {
  return { expected, read: (value) => (typeof value === "string" ? value && normal(value) : undefined), absent: "" }
}

const oldInterfaceMembers = new Map(Object.entries({ name: text, mac: text, sandbox: text }))
const interfaceMembers = new Map([
  ...oldInterfaceMembers,
  ...Object.entries({ mtu: count, socketPath: text, pciID: text }),
])
/** The keys of an address. `interface` may be any integer, because old plugins write -1 for no interface. */
const ipMembers = new Map(Object.entries({ interface: integer, address: cidr, gateway: ip }))
const routeMembers = new Map(
  Object.entries({ dst: cidr, gw: ip, mtu: count, advmss: count, priority: count, table: integer, scope: integer }),
)

/** Decodes a required address with its prefix length to its normal form, which keeps the host bits. */
export function decodeCidr(from: Decoder, key: string): string {
  const text = from.text(key, normalCidr, CIDR)
  if (text === undefined) throw wrongType(from.path(key), CIDR, from.value(key))
  return text
}

/** Decodes an optional address to its normal form. */
export function decodeIp(from: Decoder, key: string): string | undefined {
  return from.text(key, normalIp, IP)
}

/** Decodes an interface of 0.3.0. Ignores keys that 1.1.0 added. */
export function decodeOldInterface(value: JsonValue, path: () => string): Interface {
  return named(decodeObject(value, oldInterfaceMembers, path))
}

export function decodeInterface(value: JsonValue, path: () => string): Interface {
  return named(decodeObject(value, interfaceMembers, path))
}

function named(decoded: JsonObject): Interface {
  decoded.name ??= ""
  return decoded as unknown as Interface
}

export function decodeIpConfig(value: JsonValue, path: () => string): IpConfig {
  return requireCidr(value, decodeObject(value, ipMembers, path), "address", path) as unknown as IpConfig
}

export function decodeRoute(value: JsonValue, path: () => string): Route {
  return requireCidr(value, decodeObject(value, routeMembers, path), "dst", path) as unknown as Route
}

function requireCidr(value: JsonValue, decoded: JsonObject, key: string, path: () => string): JsonObject {
  if (decoded[key] === undefined) throw wrongType(`${path()}.${key}`, CIDR, member(value as JsonObject, key))
  return decoded
}

/** Decodes the name resolution settings in the key "dns". Returns `{}` if it is absent. */
export function decodeDns(from: Decoder): Dns {
  const object = from.object("dns")
  if (!object) return {}
  const dns = new Decoder(object, from.path("dns"))
  const list = (key: string) => nonEmpty(dns.list(key, readString))
  return present<Dns>({
    nameservers: list("nameservers"),
    domain: dns.string("domain") || undefined,
    search: list("search"),
    options: list("options"),
  })
}

export function encodeInterface({ name, mac, mtu, sandbox, socketPath, pciID }: Interface): JsonObject {
  return present({
    name,
    mac: mac || undefined,
    mtu: mtu || undefined,
    sandbox: sandbox || undefined,
    socketPath: socketPath || undefined,
    pciID: pciID || undefined,
  })
}

export function encodeIpConfig({ interface: index, address, gateway }: IpConfig): JsonObject {
  return present({ interface: index, address, gateway: gateway || undefined })
}

export function encodeRoute({ dst, gw, mtu, advmss, priority, table, scope }: Route): JsonObject {
  return present({
    dst,
    gw: gw || undefined,
    mtu: mtu || undefined,
    advmss: advmss || undefined,
    priority: priority || undefined,
    table,
    scope,
  })
}

export function encodeDns({ nameservers, domain, search, options }: Dns): JsonObject {
  return present({
    nameservers: nonEmpty(nameservers),
    domain: domain || undefined,
    search: nonEmpty(search),
    options: nonEmpty(options),
  })
}

export function nonEmpty<T>(list: readonly T[] | undefined): T[] | undefined {
  return list && list.length > 0 ? [...list] : undefined
}
