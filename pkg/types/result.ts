import { normalCidr, normalIp } from "./addresses.ts"
import { Decoder, present, readString, wrongType } from "./decode.ts"
import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A result of ADD in the form of CNI 1.1.0 without its version. Plugins work with this form. Addresses are text in
 * normal form (`normalIp`): "10.1.2.3/24" for addresses with a prefix, "10.1.2.1" for gateways. `decodeResult` and
 * `encodeResult` convert older versions.
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

/** One route. `scope` and `table` are the kernel's numbers; a lower `priority` wins. */
export interface Route {
  dst: string
  gw?: string
  mtu?: number
  advmss?: number
  priority?: number
  table?: number
  scope?: number
}

/** Name resolution, informational for the runtime. */
export interface Dns {
  nameservers?: string[]
  domain?: string
  search?: string[]
  options?: string[]
}

// The parts that several layouts share. Encoders write keys in the order of upstream's declarations, and omit what
// upstream omits: empty texts, empty lists, and a zero that means "not set".

/** Decodes a required address with its prefix length to its normal form. Host bits stay. */
export function decodeCidr(from: Decoder, key: string): string {
  const text = from.text(key, normalCidr, 'an address like "192.0.2.1/24"')
  if (text === undefined) throw wrongType(from.path(key), 'an address like "192.0.2.1/24"', from.value(key))
  return text
}

/** Decodes an optional address to its normal form. */
export function decodeIp(from: Decoder, key: string): string | undefined {
  return from.text(key, normalIp, 'an address like "192.0.2.1"')
}

/** Decodes an interface of 0.3.0; keys that 1.1.0 added are ignored. */
export function decodeOldInterface(value: JsonValue, path: string): Interface {
  const from = new Decoder(value, path)
  return present<Interface>({
    name: from.string("name") ?? "",
    mac: from.string("mac") || undefined,
    sandbox: from.string("sandbox") || undefined,
  })
}

export function decodeInterface(value: JsonValue, path: string): Interface {
  const from = new Decoder(value, path)
  return present<Interface>({
    name: from.string("name") ?? "",
    mac: from.string("mac") || undefined,
    sandbox: from.string("sandbox") || undefined,
    mtu: from.integer("mtu") || undefined,
    socketPath: from.string("socketPath") || undefined,
    pciID: from.string("pciID") || undefined,
  })
}

/** Any integer is a valid index: old plugins write -1 for no interface. */
export function decodeIpConfig(value: JsonValue, path: string): IpConfig {
  const from = new Decoder(value, path)
  return present<IpConfig>({
    interface: from.integer("interface"),
    address: decodeCidr(from, "address"),
    gateway: decodeIp(from, "gateway"),
  })
}

export function decodeRoute(value: JsonValue, path: string): Route {
  const from = new Decoder(value, path)
  return present<Route>({
    dst: decodeCidr(from, "dst"),
    gw: decodeIp(from, "gw"),
    mtu: from.integer("mtu") || undefined,
    advmss: from.integer("advmss") || undefined,
    priority: from.integer("priority") || undefined,
    table: from.integer("table"),
    scope: from.integer("scope"),
  })
}

/** Decodes name resolution settings under the key "dns"; `{}` if absent. */
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

/** Returns a list if it has elements. */
export function nonEmpty<T>(list: readonly T[] | undefined): T[] | undefined {
  return list && list.length > 0 ? [...list] : undefined
}
