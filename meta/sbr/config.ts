import { type Fields, invalidConfig, isCleanup, type KeyDoc, off, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { AF_INET, CniError, Code, type Family, familyOf, type NetworkConfig, parseIp } from "../../pkg/types/mod.ts"

export const sbrFields = {
  table: { kind: "integer", min: 1, max: 2 ** 32 - 1 },
  gateways: { kind: "list", of: { kind: "text", expected: "an address" } },
  addSourceHints: off,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const sbrKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["gateways"],
    default: "the result's",
    meaning:
      "at most one gateway of each family. It is the default gateway of addresses in its network, or of all addresses if no address is in its network",
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

export type SbrConfig = ReturnType<typeof parseSbrConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseSbrConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const { gateways = [], ...read } = parseConfig(sbrFields, raw, isCleanup(verb))
  return {
    /** The table that the rules select, with other programs' routes; undefined for a separate table per address. */
    table: read.table,
    /** The gateways that replace the result's gateways, by family. */
    gateways: isCleanup(verb) ? new Map<Family, Uint8Array>() : byFamily(gateways),
    /** Whether table main keeps the routes to the networks, with the addresses as preferred source. */
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
