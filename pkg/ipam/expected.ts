import {
  formatIp,
  type IpConfig,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  member,
  networkOf,
  nextAddress,
  parseCidr,
} from "../types/mod.ts"

/**
 * What the IPAM plugin of a configuration will answer, as far as that says it in the keys of host-local and static: of each
 * set every container gets one address. For STATUS, which cannot ask for addresses. Of host-local the address is that of the
 * network, since the container's is not known. Empty for other plugins, and for what cannot be read: they say so themselves.
 */
export function expectedIps(configuration: JsonObject): IpConfig[][] {
  const ipam = objectAt(configuration, "ipam")
  const type = member(ipam, "type")
  if (type === "static") return listAt(ipam, "addresses").flatMap((entry) => nonEmpty(ipAt(entry, "address")))
  if (type !== "host-local") return []
  const sets = [[ipam], ...listAt(ipam, "ranges").map((set) => (Array.isArray(set) ? set : []))]
  return sets.flatMap((set) => nonEmpty(set.flatMap(rangeOf)))
}

/** A range of host-local has a gateway: the first address, unless it is given. */
function rangeOf(range: JsonValue): IpConfig[] {
  return ipAt(range, "subnet").map((ip) => {
    const network = parseCidr(ip.address)
    return network ? { gateway: formatIp(nextAddress(networkOf(network))), ...ip } : ip
  })
}

function ipAt(entry: JsonValue, key: "address" | "subnet"): IpConfig[] {
  if (!isJsonObject(entry)) return []
  const address = member(entry, key)
  const gateway = member(entry, "gateway")
  if (typeof address !== "string" || !parseCidr(address)) return []
  return [typeof gateway === "string" && gateway !== "" ? { address, gateway } : { address }]
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
