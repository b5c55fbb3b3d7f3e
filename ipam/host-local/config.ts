import { type Fields, isCleanup, type KeyDoc, parseConfig, pathOrNone } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import {
  AF_INET,
  AF_INET6,
  atLeast,
  CniError,
  Code,
  decodeResultOf,
  isJsonObject,
  type JsonObject,
  member,
  type NetworkConfig,
  type Route,
  readCniArgs,
} from "../../pkg/types/mod.ts"
import { type Address, formatAddress, parseAddress, parseRangeSets, type RangeSet, type RangeText } from "./ranges.ts"

const defaultDataDir = "/var/lib/cni/networks"

const text = { kind: "text" } as const
const range = { subnet: text, rangeStart: text, rangeEnd: text, gateway: text } as const
const rangeSet = {
  kind: "list",
  of: { kind: "object", fields: range, expected: "a range" },
  expected: "a list of ranges",
} as const
const rangeSets = { kind: "list", of: rangeSet, expected: "a list of range sets", default: [] } as const
const addresses = {
  kind: "list",
  of: { kind: "text", expected: "an IP address" },
  expected: "a list of IP addresses",
  default: [],
} as const

export const hostLocalFields = {
  ipam: {
    kind: "object",
    fields: {
      ...range,
      dataDir: pathOrNone,
      resolvConf: pathOrNone,
      ranges: rangeSets,
      rangesFile: pathOrNone,
    },
    required: true,
  },
  args: { kind: "object", fields: { cni: { kind: "object", fields: { ips: addresses } } } },
  runtimeConfig: { kind: "object", fields: { ips: addresses, ipRanges: rangeSets } },
} as const satisfies Fields

/** The documentation of the keys, for the page, the schema and the manual page. */
export const hostLocalKeyDocs: readonly KeyDoc[] = [
  {
    keys: "`ranges`",
    paths: ["ipam.ranges"],
    type: "list of range sets",
    default: "–",
    meaning: "a container gets one address of each set; a set is a list of ranges of one family",
  },
  {
    keys: "`subnet` `rangeStart` `rangeEnd` `gateway`",
    paths: ["ipam.subnet", "ipam.rangeStart", "ipam.rangeEnd", "ipam.gateway"],
    type: "texts",
    default: "–",
    meaning: "the old form of one range. It is a range set before those of `ranges`",
  },
  {
    keys: "a range's `subnet`",
    paths: ["ipam.ranges[][].subnet"],
    type: "network with prefix",
    default: "required",
    meaning: "at least a /30 for IPv4, or a /126 for IPv6",
  },
  {
    keys: "a range's `rangeStart`",
    paths: ["ipam.ranges[][].rangeStart"],
    type: "address",
    default: "the subnet's second",
    meaning: "inclusive; in the subnet",
  },
  {
    keys: "a range's `rangeEnd`",
    paths: ["ipam.ranges[][].rangeEnd"],
    type: "address",
    default: "IPv4: the last but one; IPv6: the last",
    meaning: "inclusive; in the subnet, not before the start",
  },
  {
    keys: "a range's `gateway`",
    paths: ["ipam.ranges[][].gateway"],
    type: "address",
    default: "the subnet's second",
    meaning: "never assigned; may lie outside the subnet",
  },
  {
    keys: "`rangesFile`",
    paths: ["ipam.rangesFile"],
    type: "path",
    default: "–",
    meaning:
      "instead of `ranges`: the file with this node's ranges from Kubernetes, see [The ranges of a node](#the-ranges-of-a-node)",
  },
  {
    keys: "`routes`",
    paths: ["ipam.routes"],
    type: "list",
    default: "none",
    meaning: "copied to the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, `table`, `scope`",
  },
  {
    keys: "`resolvConf`",
    paths: ["ipam.resolvConf"],
    type: "path",
    default: "–",
    meaning: "a file like resolv.conf(5), returned as `dns`; read before addresses are reserved",
  },
  {
    keys: "`dataDir`",
    paths: ["ipam.dataDir"],
    type: "path",
    default: "`/var/lib/cni/networks`",
    meaning: "the parent of the networks' directories",
  },
  {
    keys: "`runtimeConfig.ipRanges` (top level)",
    paths: ["runtimeConfig.ipRanges"],
    type: "range sets",
    default: "none",
    meaning: "come first",
  },
  {
    keys: "`runtimeConfig.ips`, `args.cni.ips` (top level), `IP` in `CNI_ARGS`",
    paths: ["runtimeConfig.ips", "args.cni.ips"],
    type: "addresses, with or without prefix",
    default: "none",
    meaning:
      "requested addresses, at most one of each set; all sources are combined, but `IP` is ignored if `args.cni.ips` is set",
  },
]

const ipArgs = { IP: (value: string) => value }

export type HostLocalConfig = ReturnType<typeof parseHostLocalConfig>

/**
 * Reads the configuration. Throws code 7, or code 4 for `CNI_ARGS`. For DEL and GC, reads only the directory of the
 * reservations, so that invalid values are not errors.
 */
export function parseHostLocalConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const directory = directoryOf(network, raw)
  if (isCleanup(verb))
    return {
      directory,
      rangeSets: [],
      requested: [],
      routes: [],
      resolvConf: undefined,
      rangesFile: undefined,
    }
  if (member(raw, "ipam") === undefined) {
    throw new CniError(Code.InvalidNetworkConfig, "IPAM config missing 'ipam' key", {
      details: `network "${network.name}" does not configure addresses`,
    })
  }
  const { ipam, runtimeConfig, ...read } = parseConfig(hostLocalFields, raw)
  const { IP = "" } = args === "" ? {} : readCniArgs(args, ipArgs)
  // By CNI's conventions, a plugin that supports `args` ignores the same request in CNI_ARGS.
  const fromArgs = read.args?.cni?.ips.length ? read.args.cni.ips : IP === "" ? [] : [readArg(IP)]
  const fromRuntime = runtimeConfig?.ips ?? []
  const requested = fromArgs.length + fromRuntime.length === 0 ? [] : parseRequested([...fromArgs, ...fromRuntime])
  const sets: (readonly RangeText[])[] = []
  const keys: string[] = []
  const note = (key: string, set: readonly RangeText[]) => keys.push(key) && sets.push(set)
  for (const [at, set] of (runtimeConfig?.ipRanges ?? []).entries()) note(`runtimeConfig.ipRanges[${at}]`, set)
  if (ipam.subnet !== undefined) note("ipam.subnet", [ipam])
  for (const [at, set] of ipam.ranges.entries()) note(`ipam.ranges[${at}]`, set)
  const rangesFile = ipam.rangesFile || undefined
  if (rangesFile && keys[0] !== undefined) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use "ipam.rangesFile" beside "${keys[0]}"`, {
      details: "the file has all ranges of the network",
    })
  }
  if (!rangesFile && sets.length === 0) {
    throw new CniError(Code.InvalidNetworkConfig, "no IP ranges specified", {
      details: `set "ipam.ranges" or "ipam.rangesFile" of network "${network.name}"`,
    })
  }
  const rangeSets = parseRangeSets(sets, keys)
  checkFamilies(rangeSets, network.cniVersion)
  return {
    directory,
    /** The sets of ranges. The container gets one address of each set. */
    rangeSets,
    /** The addresses that the runtime requests, without duplicates. */
    requested,
    routes: parseRoutes(raw),
    /** The path of a file in the format of resolv.conf(5), whose content becomes `dns` in the result. */
    resolvConf: ipam.resolvConf || undefined,
    /**
     * The path of the file with the ranges that the cluster assigned to this node. If it is set, `rangeSets` is empty,
     * and ADD reads the file while the store is locked.
     */
    rangesFile,
  }
}

function readArg(IP: string): string {
  if (parseAddress(withoutPrefix(IP))) return IP
  throw new CniError(Code.InvalidEnvironment, `CNI_ARGS: cannot read the value of ${JSON.stringify(`IP=${IP}`)}`, {
    details: "expected an address such as 10.1.0.5",
  })
}

/** Returns `<dataDir>/<network>`, even if the rest of the configuration is invalid. */
function directoryOf({ name }: NetworkConfig, raw: JsonObject): string {
  const ipam = member(raw, "ipam")
  const given = isJsonObject(ipam) ? member(ipam, "dataDir") : undefined
  const dataDir = typeof given === "string" ? pathOrNone.check(given) : undefined
  const parent = dataDir || defaultDataDir
  return `${parent.endsWith("/") ? parent.slice(0, -1) : parent}/${name}`
}

/** Returns the requested addresses from all sources, without their prefix lengths. */
function parseRequested(texts: readonly string[]): Address[] {
  const requested = new Map<string, Address>()
  for (const written of texts) {
    const address = parseAddress(withoutPrefix(written))
    if (!address) {
      throw new CniError(
        Code.InvalidNetworkConfig,
        `Cannot reserve the requested address "${written}": cannot understand ip: expected one like 10.1.0.5`,
        { details: '"args.cni.ips", "runtimeConfig.ips" or CNI_ARGS requests it' },
      )
    }
    requested.set(formatAddress(address), address)
  }
  const addresses: Address[] = []
  for (const address of requested.values()) addresses.push(address)
  return addresses
}

function withoutPrefix(text: string): string {
  let at = text.length
  while (at > 0 && isDigit(text.charCodeAt(at - 1))) at--
  return at < text.length && text[at - 1] === "/" ? text.slice(0, at - 1) : text
}

function isDigit(char: number): boolean {
  return char >= 0x30 && char <= 0x39
}

/** Throws if a result would have several addresses of a family in a CNI version below 0.3.0, which allows only one. */
function checkFamilies(sets: readonly RangeSet[], version: string): void {
  const count = { [AF_INET]: 0, [AF_INET6]: 0 }
  for (const set of sets) if (set[0]) count[set[0].start.family]++
  if ((count[AF_INET] <= 1 && count[AF_INET6] <= 1) || atLeast(version, "0.3.0")) return
  throw new CniError(
    Code.InvalidNetworkConfig,
    `CNI version ${version} does not support more than 1 address per family`,
    { details: `found ${count[AF_INET]} IPv4 and ${count[AF_INET6]} IPv6 range sets` },
  )
}

/** Returns the routes as written in the configuration, for the result. */
function parseRoutes(raw: JsonObject): Route[] {
  const ipam = member(raw, "ipam")
  const routes = isJsonObject(ipam) ? member(ipam, "routes") : undefined
  if (routes === undefined) return []
  try {
    return decodeResultOf("1.1.0", { routes }).routes
  } catch (cause) {
    if (!(cause instanceof CniError)) throw cause
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use "ipam.routes": ${cause.message}`)
  }
}
