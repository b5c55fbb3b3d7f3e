import type { Delegate } from "../invoke/mod.ts"
import {
  CniError,
  Code,
  formatIp,
  type IpConfig,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  member,
  messageOf,
  type NetworkConfig,
  networkOf,
  nextAddress,
  normalCidr,
  normalIp,
  parseCidr,
  type Result,
} from "../types/mod.ts"

/** The part of a plugin's call that these functions use. */
export interface IpamCaller {
  readonly network: NetworkConfig
  readonly delegate: Delegate
  log(line: string): void
}

/**
 * Runs ADD of the IPAM plugin and returns its result, which has at least one address. Throws the plugin's error, code 7
 * without a configured IPAM plugin, and code 999 for a result without addresses. If ADD fails or returns no address,
 * runs the plugin's DEL before it throws, so that nothing stays reserved.
 */
function addIpam({ network, delegate, log }: IpamCaller): Result {
  const type = network.ipam?.type
  if (!type) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot get addresses for network "${network.name}": no "ipam.type"`)
  }
  const result = delegate.add(type)
  if (result.ips.length > 0) return result
  try {
    delegate.del(type)
  } catch (error) {
    log(`Cannot release the addresses of IPAM plugin "${type}": ${messageOf(error)}`)
  }
  throw new CniError(Code.Internal, "IPAM plugin returned missing IP config", {
    details: `plugin "${type}" of network "${network.name}" returned no address for ADD`,
  })
}

/**
 * Returns a function that calls one verb of the IPAM plugin, if one is configured. The function throws the plugin's
 * error.
 */
function callOf(verb: "check" | "del" | "status" | "gc") {
  return ({ network: { ipam }, delegate }: IpamCaller): void => {
    if (ipam?.type) delegate[verb](ipam.type)
  }
}

/** Reports whether the IPAM plugin uses the interface: DHCP needs it before ADD and until after DEL. */
function usesInterface(type: string | undefined): boolean {
  return type === "dhcp"
}

/** The verbs of a network's IPAM plugin: `ipam.add(call)`. */
export const ipam = {
  add: addIpam,
  check: callOf("check"),
  del: callOf("del"),
  status: callOf("status"),
  gc: callOf("gc"),
  usesInterface,
} as const

/**
 * Returns, for STATUS, the addresses that the IPAM plugin can lease: one list for each address that a container gets.
 * Reads the keys of static, and of host-local, for which it returns the networks' addresses, because the container's
 * are unknown. Returns an empty list for other plugins, and for an unreadable configuration.
 */
export function expectedIps(configuration: JsonObject): IpConfig[][] {
  const ipam = objectAt(configuration, "ipam")
  const type = member(ipam, "type")
  if (type === "static") return listAt(ipam, "addresses").flatMap((entry) => nonEmpty(ipAt(entry, "address")))
  if (type !== "host-local") return []
  const sets = [[ipam], ...listAt(ipam, "ranges").map((set) => (Array.isArray(set) ? set : []))]
  return sets.flatMap((set) => nonEmpty(set.flatMap(rangeOf)))
}

/** Returns the network of a host-local range, with its gateway: the first address, unless the range names another. */
function rangeOf(range: JsonValue): IpConfig[] {
  return ipAt(range, "subnet").map((ip) => {
    const network = parseCidr(ip.address)
    return network ? { gateway: formatIp(nextAddress(networkOf(network))), ...ip } : ip
  })
}

function ipAt(entry: JsonValue, key: "address" | "subnet"): IpConfig[] {
  if (!isJsonObject(entry)) return []
  const [address, gateway] = [member(entry, key), member(entry, "gateway")]
  const cidr = typeof address === "string" ? normalCidr(address) : undefined
  if (cidr === undefined) return []
  const router = typeof gateway === "string" ? normalIp(gateway) : undefined
  return [{ address: cidr, ...(router === undefined ? {} : { gateway: router }) }]
}

function nonEmpty<T>(list: T[]): T[][] {
  return list.length > 0 ? [list] : []
}

function objectAt(object: JsonObject, key: string): JsonObject {
  const value = member(object, key)
  return isJsonObject(value) ? value : {}
}

function listAt(object: JsonObject, key: string): readonly JsonValue[] {
  const value = member(object, key)
  return Array.isArray(value) ? value : []
}
