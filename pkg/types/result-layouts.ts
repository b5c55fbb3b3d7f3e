import { AF_INET, familyOf, parseCidr } from "./addresses.ts"
import { Decoder, present } from "./decode.ts"
import { CniError, Code } from "./error.ts"
import type { JsonObject, JsonValue } from "./json.ts"
import {
  type Dns,
  decodeCidr,
  decodeDns,
  decodeInterface,
  decodeIp,
  decodeIpConfig,
  decodeOldInterface,
  decodeRoute,
  encodeDns,
  encodeInterface,
  encodeIpConfig,
  encodeRoute,
  type Interface,
  type IpConfig,
  nonEmpty,
  type Result,
  type Route,
} from "./result.ts"

/** The address and routes of one family in versions 0.1.0 and 0.2.0. */
export interface FamilyConfig {
  ip: string
  gateway?: string
  routes: Route[]
}

/** The result of versions 0.1.0 and 0.2.0: at most one address of each family, and no interfaces. */
export interface Result020 {
  ip4?: FamilyConfig
  ip6?: FamilyConfig
  dns: Dns
}

/** An address of versions 0.3.0 to 0.4.0. `version` is "4" or "6", as the plugin wrote it. */
export interface IpConfig040 extends IpConfig {
  version: string
}

/** The result of versions 0.3.0, 0.3.1 and 0.4.0. */
export interface Result040 {
  interfaces: Interface[]
  ips: IpConfig040[]
  routes: Route[]
  dns: Dns
}

export function decode020(document: JsonObject): Result020 {
  const from = new Decoder(document, "")
  const ip4 = from.object("ip4")
  const ip6 = from.object("ip6")
  return {
    ...(ip4 && { ip4: decodeFamily(ip4, "ip4") }),
    ...(ip6 && { ip6: decodeFamily(ip6, "ip6") }),
    dns: decodeDns(from),
  }
}

export function decode040(document: JsonObject): Result040 {
  const from = new Decoder(document, "")
  return {
    interfaces: from.list("interfaces", decodeOldInterface),
    ips: from.list("ips", (value, path) => ({
      version: new Decoder(value, path()).string("version") ?? "",
      ...decodeIpConfig(value, path),
    })),
    routes: from.list("routes", decodeRoute),
    dns: decodeDns(from),
  }
}

export function decode100(document: JsonObject): Result {
  const from = new Decoder(document, "")
  return {
    interfaces: from.list("interfaces", decodeInterface),
    ips: from.list("ips", decodeIpConfig),
    routes: from.list("routes", decodeRoute),
    dns: decodeDns(from),
  }
}

export function encode020({ ip4, ip6, dns }: Result020, cniVersion: string): JsonObject {
  return present({ cniVersion, ip4: ip4 && encodeFamily(ip4), ip6: ip6 && encodeFamily(ip6), dns: encodeDns(dns) })
}

export function encode040({ interfaces, ips, routes, dns }: Result040, cniVersion: string): JsonObject {
  return present({
    cniVersion,
    interfaces: nonEmpty(interfaces.map(encodeInterface)),
    ips: nonEmpty(ips.map(({ version, ...ip }) => ({ version, ...encodeIpConfig(ip) }))),
    routes: nonEmpty(routes.map(encodeRoute)),
    dns: encodeDns(dns),
  })
}

/** Encodes a result of 1.0.0 or later. Upstream writes all keys in alphabetical order, and no empty "dns". */
export function encode100({ interfaces, ips, routes, dns }: Result, cniVersion: string): JsonObject {
  const written = encodeDns(dns)
  return present({
    cniVersion,
    dns: Object.keys(written).length > 0 ? sorted(written) : undefined,
    interfaces: sortedList(interfaces, encodeInterface),
    ips: sortedList(ips, encodeIpConfig),
    routes: sortedList(routes, encodeRoute),
  })
}

function decodeFamily(value: JsonValue, path: string): FamilyConfig {
  const from = new Decoder(value, path)
  const gateway = decodeIp(from, "gateway")
  return { ip: decodeCidr(from, "ip"), ...(gateway && { gateway }), routes: from.list("routes", decodeRoute) }
}

function encodeFamily({ ip, gateway, routes }: FamilyConfig): JsonObject {
  return present({ ip, gateway: gateway || undefined, routes: nonEmpty(routes.map(encodeRoute)) })
}

function sortedList<T>(values: readonly T[], encode: (value: T) => JsonObject): JsonObject[] | undefined {
  const list: JsonObject[] = []
  for (const value of values) list.push(sorted(encode(value)))
  return nonEmpty(list)
}

function sorted(object: JsonObject): JsonObject {
  const copy: JsonObject = {}
  for (const key of Object.keys(object).sort()) copy[key] = object[key] ?? null
  return copy
}

// Conversions between the three layouts of a result. A conversion to a newer layout loses nothing. A conversion to an
// older one loses the data that the older layout cannot represent.

/** Converts from 0.2.0 to 0.4.0: one address per family, whose key gives the family. */
export function up020({ ip4, ip6, dns }: Result020): Result040 {
  const address = (version: string, family: FamilyConfig | undefined): IpConfig040[] =>
    family ? [{ version, address: family.ip, ...(family.gateway && { gateway: family.gateway }) }] : []
  return {
    interfaces: [],
    ips: [...address("4", ip4), ...address("6", ip6)],
    routes: [...(ip4?.routes ?? []), ...(ip6?.routes ?? [])],
    dns,
  }
}

/** Converts from 0.4.0 to 1.0.0: removes the families of addresses. */
export function up040({ interfaces, ips, routes, dns }: Result040): Result {
  return { interfaces, ips: ips.map(({ version: _, ...ip }) => ip), routes, dns }
}

/** Converts from 1.0.0 to 0.4.0: adds the families, and drops `mtu`, `socketPath` and `pciID` of interfaces. */
export function down100({ interfaces, ips, routes, dns }: Result): Result040 {
  return {
    interfaces: interfaces.map(({ mtu, socketPath, pciID, ...old }) => old),
    ips: ips.map((ip) => ({ version: ipVersionOf(ip.address), ...ip })),
    routes,
    dns,
  }
}

/**
 * Converts from 0.4.0 to 0.2.0: keeps the first address of each family, and the destinations and gateways of its
 * routes. Drops interfaces, further addresses, and other properties of routes. Throws code 1 if no address is left.
 */
export function down040({ ips, routes, dns }: Result040): Result020 {
  const family = (version: "4" | "6"): FamilyConfig | undefined => {
    const first = ips.find((ip) => ip.version === version)
    if (!first) return undefined
    const own = routes.filter(({ dst }) => ipVersionOf(dst) === version)
    return { ip: first.address, ...(first.gateway && { gateway: first.gateway }), routes: own.map(shortRoute) }
  }
  const ip4 = family("4")
  const ip6 = family("6")
  if (!ip4 && !ip6) throw new CniError(Code.IncompatibleVersion, "cannot convert: no valid IP addresses")
  return { ...(ip4 && { ip4 }), ...(ip6 && { ip6 }), dns }
}

function shortRoute({ dst, gw }: Route): Route {
  return { dst, ...(gw && { gw }) }
}

/** Returns the `version` of an address for 0.3.0 to 0.4.0. */
function ipVersionOf(cidr: string): "4" | "6" {
  const parsed = parseCidr(cidr)
  if (!parsed) throw new CniError(Code.Internal, `Cannot write address "${cidr}": expected one like "192.0.2.1/24"`)
  return familyOf(parsed.ip) === AF_INET ? "4" : "6"
}
