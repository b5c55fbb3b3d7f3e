import { normalCidr, normalIp } from "./addresses.ts"
import { Decoder, present, readString, wrongType } from "./decode.ts"
import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A result of ADD, in the form of CNI 1.1.0 without its version. Plugins work with this form. Addresses are text in
 * their normal form (`normalIp`): "10.1.2.3/24" for addresses with a prefix, "10.1.2.1" for gateways. Results of older
 * versions are read into this form by `decodeResult` and written from it by `encodeResult`.
 */
export interface Result {
  interfaces: Interface[]
  ips: IpConfig[]
  routes: Route[]
  dns: Dns
}

/** One interface of the attachment. `sandbox` is absent for those that stay on the host. */
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

// The parts that several layouts share. Encoders write keys in the order of upstream's declarations, and leave out what
// upstream leaves out: empty texts, empty lists, and a zero where zero means "not set".

/** An address with its prefix length in its normal form, required. Host bits stay. */
export function decodeCidr(from: Decoder, key: string): string {
  const text = from.text(key, normalCidr, 'an address like "192.0.2.1/24"')
  if (text === undefined) throw wrongType(from.path(key), 'an address like "192.0.2.1/24"', from.value(key))
  return text
}

/** An address in its normal form, or nothing. */
export function decodeIp(from: Decoder, key: string): string | undefined {
  return from.text(key, normalIp, 'an address like "192.0.2.1"')
}

/** An interface as of 0.3.0; what 1.1.0 added is not looked at. */
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

/** Name resolution settings under the key "dns"; absent ones are `{}`. */
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

/** A list that has elements, or nothing. */
export function nonEmpty<T>(list: readonly T[] | undefined): T[] | undefined {
  return list && list.length > 0 ? [...list] : undefined
}
