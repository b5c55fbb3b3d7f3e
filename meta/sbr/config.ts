import { type Fields, invalidConfig, isCleanup, off, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { AF_INET, CniError, Code, type Family, familyOf, type NetworkConfig, parseIp } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const sbrFields = {
  table: { kind: "integer", min: 1, max: 2 ** 32 - 1 },
  gateways: { kind: "list", of: { kind: "text", expected: "an address" } },
  addSourceHints: off,
} as const satisfies Fields

/** The configuration of source based routing, checked. */
export type SbrConfig = ReturnType<typeof parseSbrConfig>

/** Reads the configuration. For DEL and GC what is wrong counts as absent. Throws code 7 that names the key. */
export function parseSbrConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const { gateways = [], ...read } = parseConfig(sbrFields, raw, isCleanup(verb))
  return {
    /** Sources are looked up in this table, in which others make the routes; undefined for tables of our own. */
    table: read.table,
    /** The gateways that are used instead of the result's. */
    gateways: isCleanup(verb) ? new Map<Family, Uint8Array>() : byFamily(gateways),
    /** The networks stay in table main, with the source that belongs to them. */
    addSourceHints: read.addSourceHints,
  }
}

function byFamily(gateways: readonly string[]): Map<Family, Uint8Array> {
  // The words are upstream's.
  const refuse = (message: string) => new CniError(Code.InvalidNetworkConfig, message)
  if (gateways.length > 2) {
    throw refuse(`gateways list cannot contain more than 2 entries (1 for IPv4 and 1 for IPv6): ${gateways.join(", ")}`)
  }
  const found = new Map<Family, Uint8Array>()
  for (const text of gateways) {
    const ip = parseIp(text)
    if (!ip) throw invalidConfig("gateways", "addresses without a prefix length", text)
    const family = familyOf(ip)
    if (found.has(family)) {
      const what = family === AF_INET ? "IPv4" : "IPv6"
      throw refuse(`gateways list contains multiple ${what} addresses: ${gateways.join(", ")}`)
    }
    found.set(family, ip)
  }
  return found
}
