import * as v from "valibot"
import { parseConfig } from "../../pkg/config/mod.ts"
import {
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
import { type Address, formatAddress, parseAddress } from "./address.ts"
import { parseRangeSets, type RangeSet } from "./ranges.ts"

const defaultDataDir = "/var/lib/cni/networks"

const text = v.optional(v.string("a text"))
const range = { subnet: text, rangeStart: text, rangeEnd: text, gateway: text }
const rangeSets = v.optional(
  v.array(v.array(v.object(range, "a range"), "a list of ranges"), "a list of range sets"),
  [],
)
const addresses = v.optional(v.array(v.string("an IP address"), "a list of IP addresses"), [])

const schema = v.object({
  ipam: v.object({ ...range, dataDir: text, resolvConf: text, ranges: rangeSets }, "an object"),
  args: v.optional(v.object({ cni: v.optional(v.object({ ips: addresses })) })),
  runtimeConfig: v.optional(v.object({ ips: addresses, ipRanges: rangeSets })),
})

/** The configuration of host-local, checked. */
export interface HostLocalConfig {
  /** The directory of this network's reservations. */
  readonly directory: string
  /** The container gets one address of each. */
  readonly rangeSets: readonly RangeSet[]
  /** The addresses that the caller asks for, each once. */
  readonly requested: readonly Address[]
  readonly routes: readonly Route[]
  /** A file in the form of resolv.conf(5) to report as `dns`. */
  readonly resolvConf: string | undefined
}

/**
 * Reads the configuration. What is wrong throws code 7 (`CNI_ARGS`: code 4), except for DEL and GC, which need to know
 * nothing but where the reservations are.
 */
export function parseHostLocalConfig(
  network: NetworkConfig,
  { verb, args, raw }: { verb: string; args: string; raw: JsonObject },
): HostLocalConfig {
  if (verb === "DEL" || verb === "GC") {
    return { directory: directoryOf(network, raw), rangeSets: [], requested: [], routes: [], resolvConf: undefined }
  }
  if (member(raw, "ipam") === undefined) {
    throw new CniError(Code.InvalidNetworkConfig, `IPAM config missing 'ipam' key in network "${network.name}"`)
  }
  const { ipam, args: hints, runtimeConfig } = parseConfig(schema, raw)
  const { IP = "" } = args === "" ? {} : readCniArgs(args, { IP: (value) => value })
  // The conventions: a plugin that knows `args` ignores the same wish in CNI_ARGS.
  const hinted = hints?.cni?.ips.length ? hints.cni.ips : IP === "" ? [] : [IP]
  const requested = parseRequested([...hinted, ...(runtimeConfig?.ips ?? [])])
  const sets = [...(runtimeConfig?.ipRanges ?? []), ...(ipam.subnet === undefined ? [] : [[ipam]]), ...ipam.ranges]
  if (sets.length === 0) {
    throw new CniError(Code.InvalidNetworkConfig, `no IP ranges specified: set "ipam.ranges" of "${network.name}"`)
  }
  const read = parseRangeSets(sets)
  checkFamilies(read, network.cniVersion)
  return {
    directory: directoryOf(network, raw),
    rangeSets: read,
    requested,
    routes: parseRoutes(raw),
    resolvConf: ipam.resolvConf || undefined,
  }
}

/** `<dataDir>/<network>`, whatever else the configuration says. */
function directoryOf({ name }: NetworkConfig, raw: JsonObject): string {
  const ipam = member(raw, "ipam")
  const dataDir = isJsonObject(ipam) ? member(ipam, "dataDir") : undefined
  const parent = typeof dataDir === "string" && dataDir !== "" ? dataDir : defaultDataDir
  return `${parent.endsWith("/") ? parent.slice(0, -1) : parent}/${name}`
}

/** The addresses of all sources together; a prefix length that comes with one says nothing. */
function parseRequested(wishes: readonly string[]): Address[] {
  const requested = new Map<string, Address>()
  for (const written of wishes) {
    const address = parseAddress(written.replace(/\/\d+$/, ""))
    if (!address) {
      throw new CniError(
        Code.InvalidNetworkConfig,
        `Cannot reserve the requested address "${written}": cannot understand ip: expected one like 10.1.0.5`,
      )
    }
    requested.set(formatAddress(address), address)
  }
  const addresses: Address[] = []
  for (const address of requested.values()) addresses.push(address)
  return addresses
}

/** Results below 0.3.0 have room for one address of a family. */
function checkFamilies(sets: readonly RangeSet[], version: string): void {
  const count = (family: 4 | 6) => sets.filter(([first]) => first?.start.family === family).length
  if (sets.length === 1 || (count(4) <= 1 && count(6) <= 1) || atLeast(version, "0.3.0")) return
  throw new CniError(
    Code.InvalidNetworkConfig,
    `CNI version ${version} does not support more than 1 address per family: found ${count(4)} IPv4 and ${count(6)} IPv6 range sets`,
  )
}

/** The routes for the result, as they are written. */
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
