import { type Fields, invalidConfig, isCleanup, type KeyDoc, off, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { AF_INET, CniError, Code, type Family, familyOf, type NetworkConfig, parseIp } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const sbrFields = {
  table: { kind: "integer", min: 1, max: 2 ** 32 - 1 },
  gateways: { kind: "list", of: { kind: "text", expected: "an address" } },
  addSourceHints: off,
} as const satisfies Fields

/** The documentation of the keys: the table on the page, the schema and the manual page are made from it. */
export const sbrKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["gateways"],
    default: "the result's",
    meaning:
      "at most one address of each family: the default gateway in the tables of the addresses in its network; in all tables if it is in none",
  },
  {
    paths: ["addSourceHints"],
    default: "false",
    meaning: "also keeps the routes to the networks in table `main`, each with its address as source",
  },
  {
    paths: ["table"],
    default: "none",
    meaning: "only adds rules for this table; other programs add its routes, and the other keys have no effect",
  },
]

/** The checked configuration of source based routing. */
export type SbrConfig = ReturnType<typeof parseSbrConfig>

/** Reads the configuration. For DEL and GC a wrong value counts as absent. Throws code 7 naming the key. */
export function parseSbrConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const { gateways = [], ...read } = parseConfig(sbrFields, raw, isCleanup(verb))
  return {
    /** The table for these sources, with routes added by others; undefined for tables of the plugin's own. */
    table: read.table,
    /** The gateways to use instead of the result's. */
    gateways: isCleanup(verb) ? new Map<Family, Uint8Array>() : byFamily(gateways),
    /** The networks' routes stay in table main, with their source addresses. */
    addSourceHints: read.addSourceHints,
  }
}

function byFamily(gateways: readonly string[]): Map<Family, Uint8Array> {
  // upstream's wording
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
