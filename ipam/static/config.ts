import { type Fields, type KeyDoc, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import {
  AF_INET,
  AF_INET6,
  atLeast,
  type Cidr,
  CniError,
  Code,
  contains,
  type Dns,
  decodeResultOf,
  describe,
  type Family,
  familyOf,
  formatCidr,
  formatIp,
  type IpConfig,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  member,
  type NetworkConfig,
  parseCidr,
  parseIp,
  type Route,
  readCniArgs,
} from "../../pkg/types/mod.ts"

const text = { kind: "text" } as const
const entry = { kind: "object", fields: { address: { ...text, required: true }, gateway: text } } as const
const texts = { kind: "list", of: text, expected: "a list of addresses with a prefix length" } as const

export const staticFields = {
  ipam: { kind: "object", fields: { addresses: { kind: "list", of: entry, default: [] } }, required: true },
  args: { kind: "object", fields: { cni: { kind: "object", fields: { ips: texts } } } },
  runtimeConfig: { kind: "object", fields: { ips: texts } },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const staticKeyDocs: readonly KeyDoc[] = [
  {
    keys: "`addresses`",
    paths: ["ipam.addresses"],
    type: "list",
    meaning: "the addresses of the container's interface, in this order",
  },
  {
    keys: "`addresses[].address`",
    paths: ["ipam.addresses[].address"],
    type: "address with prefix",
    meaning: "required; host bits are kept",
  },
  {
    keys: "`addresses[].gateway`",
    paths: ["ipam.addresses[].gateway"],
    type: "address",
    meaning: "optional; may lie outside the subnet",
  },
  {
    keys: "`routes`",
    paths: ["ipam.routes"],
    type: "list",
    meaning: "copied to the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, `table`, `scope`; duplicates are kept",
  },
  {
    keys: "`dns`",
    paths: ["ipam.dns"],
    type: "object",
    meaning: "copied to the result: `nameservers`, `domain`, `search`, `options`",
  },
  { keys: "`IP` in `CNI_ARGS`", paths: [], type: "addresses, separated by commas", meaning: "added to `addresses`" },
  {
    keys: "`GATEWAY` in `CNI_ARGS`",
    paths: [],
    type: "addresses, separated by commas",
    meaning: "each is the gateway of those addresses of `IP` that are in its subnet",
  },
  {
    keys: "`args.cni.ips` (top level)",
    paths: ["args.cni.ips"],
    type: "list of addresses with prefix",
    meaning: "replaces all addresses above; the addresses have no gateways",
  },
  {
    keys: "`runtimeConfig.ips` (top level)",
    paths: ["runtimeConfig.ips"],
    type: "the same",
    meaning: "also replaces `args.cni.ips`",
  },
]

/** The result, which the configuration defines completely. */
export type StaticConfig = ReturnType<typeof parseStaticConfig>

/**
 * Reads the configuration. The addresses are `ipam.addresses` and those of `IP` in `CNI_ARGS`. `args.cni.ips` replaces
 * both, and `runtimeConfig.ips` replaces all others. Replaced entries are not checked, because they may be
 * placeholders. An address without a prefix length gets that of the network in `ipam.addresses` that contains the
 * address. Throws code 7 with the address, or code 4 for `CNI_ARGS`. For DEL and GC, which have nothing to clean up,
 * reads nothing.
 */
export function parseStaticConfig(
  network: NetworkConfig,
  { verb, args, raw }: ConfigCall,
): { ips: readonly IpConfig[]; routes: readonly Route[]; dns: Dns } {
  if (verb === "DEL" || verb === "GC") return { ips: [], routes: [], dns: {} }
  const ipam = member(raw, "ipam")
  if (ipam === undefined)
    throw invalid("IPAM config missing 'ipam' key", `network "${network.name}" does not configure addresses`)
  const { ipam: _, ...wishFields } = staticFields
  const wish = parseConfig(wishFields, raw)
  const wanted = [wish.runtimeConfig?.ips, wish.args?.cni?.ips].find((texts) => texts && texts.length > 0)
  // STATUS has no container, so the runtime has not sent addresses yet.
  const isReplaced = wanted !== undefined || (verb === "STATUS" && takesAddresses(raw))
  const read = isReplaced ? withoutAddresses(raw) : raw
  const configured = parseConfig(staticFields, read).ipam.addresses.map(({ address, gateway }) =>
    ipConfig(address, gateway, "the 'address' field is expected to be in CIDR notation"),
  )
  const networks = networksOf(isJsonObject(ipam) ? member(ipam, "addresses") : undefined)
  const { IP, GATEWAY } = readCniArgs(args, { IP: (value) => value, GATEWAY: (value) => value })
  // By CNI's conventions, a plugin that supports `args` ignores the same request in CNI_ARGS.
  const ips = wanted ? replacement(wanted, networks) : [...configured, ...askedAddresses(networks, IP, GATEWAY)]
  checkAddresses(ips, network.cniVersion)
  return { ips, ...parseRest(isJsonObject(ipam) ? ipam : {}) }
}

/** Reports whether the network gets addresses from its runtime. */
function takesAddresses(raw: JsonObject): boolean {
  const capabilities = member(raw, "capabilities")
  return isJsonObject(capabilities) && member(capabilities, "ips") === true
}

function withoutAddresses(raw: JsonObject): JsonObject {
  const without = (object: JsonObject, name: string) =>
    Object.fromEntries(Object.entries(object).filter(([key]) => key.toLowerCase() !== name))
  const ipam = member(raw, "ipam")
  return { ...without(raw, "ipam"), ipam: isJsonObject(ipam) ? without(ipam, "addresses") : (ipam ?? null) }
}

function networksOf(addresses: JsonValue | undefined): Cidr[] {
  if (!Array.isArray(addresses)) return []
  return addresses.flatMap((entry) => {
    const address = isJsonObject(entry) ? member(entry, "address") : undefined
    return (typeof address === "string" && parseCidr(address)) || []
  })
}

/** Parses an address from a runtime. If it has no prefix length, it gets that of its network in `networks`. */
function wantedCidr(text: string, networks: readonly Cidr[]): Cidr | undefined {
  const ip = parseIp(text)
  const network = ip && networks.find((each) => contains(each, ip))
  return network ? { ip, prefix: network.prefix } : parseCidr(text)
}

/** Returns the addresses of `IP` in `CNI_ARGS`, each with the gateway of `GATEWAY` in its subnet, if there is one. */
function askedAddresses(networks: readonly Cidr[], IP = "", GATEWAY = ""): IpConfig[] {
  const list = (value: string) => (value === "" ? [] : value.split(",").map((each) => each.trim()))
  const gateways = list(GATEWAY).map((each) => parseIp(each) ?? refuseArg(`invalid gateway address: ${each}`))
  return list(IP).map((each) => {
    const expectation = "the 'ip' field is expected to be in CIDR notation"
    const cidr = wantedCidr(each, networks) ?? refuseArg(`${expectation}, got: '${each}'`, withoutNetwork(each))
    const gateway = gateways.findLast((candidate) => contains(cidr, candidate))
    return { address: formatCidr(cidr), ...(gateway && { gateway: formatIp(gateway) }) }
  })
}

/** Returns the addresses that replace all others. */
function replacement(texts: readonly string[], networks: readonly Cidr[]): IpConfig[] {
  return texts.map((each) => {
    const cidr = wantedCidr(each, networks)
    if (!cidr)
      throw invalid(`an entry in the 'ips' field is NOT in CIDR notation, got: '${each}'`, withoutNetwork(each))
    return { address: formatCidr(cidr) }
  })
}

/** Returns the reason why an address without a prefix length cannot be used. */
function withoutNetwork(text: string): string {
  return parseIp(text) ? 'no network of "ipam.addresses" contains it, so its prefix length is unknown' : ""
}

function ipConfig(address: string, gateway = "", expectation: string): IpConfig {
  const cidr = parseCidr(address)
  if (!cidr) throw invalid(`${expectation}, got: '${address}'`)
  const router = gateway === "" ? undefined : parseIp(gateway)
  if (gateway !== "" && !router)
    throw invalid(`Cannot use the gateway ${describe(gateway)} of ${address}: not an IP address`)
  return { address: formatCidr(cidr), ...(router && { gateway: formatIp(router) }) }
}

/** Reads the other keys of `ipam`, which are copied to the result. */
function parseRest(ipam: JsonObject): { routes: Route[]; dns: Dns } {
  try {
    const { routes, dns } = decodeResultOf("1.1.0", { routes: member(ipam, "routes"), dns: member(ipam, "dns") })
    return { routes, dns }
  } catch (error) {
    throw error instanceof CniError ? invalid(`Cannot use "ipam": ${error.message}`) : error
  }
}

function checkAddresses(ips: readonly IpConfig[], version: string): void {
  const seen = new Set<string>()
  const repeated = ips.find(({ address }) => seen.size === seen.add(address).size)
  if (repeated) throw invalid(`Cannot use the address ${repeated.address} twice`)
  if (atLeast(version, "0.3.0")) return
  const families = ips.flatMap(({ address }) => parseCidr(address) ?? []).map(({ ip }) => familyOf(ip))
  const count = (family: Family) => families.filter((each) => each === family).length
  const [v4, v6] = [count(AF_INET), count(AF_INET6)]
  if (v4 <= 1 && v6 <= 1) return
  throw invalid(
    `CNI version ${version} does not support more than 1 address per family`,
    `found ${v4} IPv4 and ${v6} IPv6 addresses`,
  )
}

function refuseArg(reason: string, details = ""): never {
  throw new CniError(Code.InvalidEnvironment, `CNI_ARGS: ${reason}`, { details })
}

function invalid(message: string, details = ""): CniError {
  return new CniError(Code.InvalidNetworkConfig, message, { details })
}
