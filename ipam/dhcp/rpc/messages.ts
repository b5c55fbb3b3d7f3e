import { RouteScope } from "../../../pkg/netlink/mod.ts"
import {
  type Dns,
  formatCidr,
  formatIp,
  type IpConfig,
  parseCidr,
  parseIp,
  prefixMask,
  type Result,
  type Route,
  unmapped,
} from "../../../pkg/types/mod.ts"
import {
  defineTypes,
  GobError,
  type GobObject,
  type GobValue,
  isGobObject,
  octets,
  signed,
  slice,
  struct,
  text,
  unsigned,
} from "./gob.ts"

/** The header before every argument and every reply; net/rpc/server.go. */
export const requestType = struct("Request", { ServiceMethod: text, Seq: unsigned })
export const responseType = struct("Response", { ServiceMethod: text, Seq: unsigned, Error: text })

/** The argument of every method: the runtime's call of the plugin. */
export const argumentType = struct("CmdArgs", {
  ContainerID: text,
  Netns: text,
  IfName: text,
  Args: text,
  Path: text,
  NetnsOverride: text,
  StdinData: octets,
})

export const callTypes = defineTypes(requestType, argumentType)

/** The type of an empty reply: of every method except Allocate, and of a failed call. */
export const emptyType = struct("", {})

const texts = slice("[]string", text)
const network = struct("IPNet", { IP: octets, Mask: octets })
/** The type of an interface. It has no name, because Go's lists contain pointers to it. */
const interfaceType = struct("", { Name: text, Mac: text, Mtu: signed, Sandbox: text, SocketPath: text, PciID: text })
const ipType = struct("", { Interface: signed, Address: network, Gateway: octets })
/** The numbers of a route, by their names in Go; the second names are those in a result. */
const routeNumbers = [
  ["MTU", "mtu"],
  ["AdvMSS", "advmss"],
  ["Priority", "priority"],
  ["Table", "table"],
  ["Scope", "scope"],
] as const
const numberTypes = Object.fromEntries(routeNumbers.map(([name]) => [name, signed]))
const routeType = struct("", { Dst: network, GW: octets, ...numberTypes })

/** The type of Allocate's reply: a result in the layout of CNI 1.0. */
export const resultType = struct("Result", {
  CNIVersion: text,
  Interfaces: slice("[]*types100.Interface", interfaceType),
  IPs: slice("[]*types100.IPConfig", ipType),
  Routes: slice("[]*types.Route", routeType),
  DNS: struct("DNS", { Nameservers: texts, Domain: text, Search: texts, Options: texts }),
})

/**
 * Returns the types of a daemon's messages. This is a function, because a constant would cost time in the plugin, which
 * starts from bytecode and does not need them.
 */
export function replyTypes() {
  return defineTypes(responseType, emptyType, resultType)
}

/** The methods. Only daemons of this suite have Check and Collect. */
export type Method = "Allocate" | "Release" | "Check" | "Collect"

export interface CallArguments {
  readonly containerId: string
  readonly netns: string
  readonly ifName: string
  readonly args: string
  readonly path: string
  readonly stdin: Uint8Array
}

export function encodeArguments({ containerId, netns, ifName, args, path, stdin }: CallArguments): GobObject {
  return { ContainerID: containerId, Netns: netns, IfName: ifName, Args: args, Path: path, StdinData: stdin }
}

/** Decodes the arguments of a call. Throws `GobError` for any other value. */
export function decodeArguments(value: GobObject): CallArguments {
  const stdin = value.StdinData ?? new Uint8Array()
  if (!(stdin instanceof Uint8Array)) throw new GobError("StdinData is not bytes")
  return {
    containerId: textOf(value, "ContainerID"),
    netns: textOf(value, "Netns"),
    ifName: textOf(value, "IfName"),
    args: textOf(value, "Args"),
    path: textOf(value, "Path"),
    stdin,
  }
}

export function encodeReply({ ips, routes, dns }: Result): GobObject {
  return {
    IPs: ips.map(({ address, gateway }) => ({ Address: encodeNetwork(address), Gateway: encodeIp(gateway) })),
    Routes: routes.map((route) => ({
      Dst: encodeNetwork(route.dst),
      GW: encodeIp(route.gw ?? unsetRouter(route)),
      ...Object.fromEntries(routeNumbers.map(([name, key]) => [name, route[key]])),
    })),
    DNS: { Nameservers: dns.nameservers, Domain: dns.domain, Search: dns.search, Options: dns.options },
  }
}

/** Returns "0.0.0.0" or "::" as the router of a route on the link, like upstream's daemon. */
function unsetRouter({ dst, scope }: Route): string | undefined {
  return scope === RouteScope.Link ? (dst.includes(":") ? "::" : "0.0.0.0") : undefined
}

/** Returns the result that a reply of Allocate contains. Throws `GobError` for invalid addresses. */
export function decodeReply(value: GobObject): Result {
  return {
    interfaces: [],
    ips: listOf(value, "IPs")
      .filter(isGobObject)
      .map(({ Address, Gateway }): IpConfig => {
        const gateway = decodeIp(Gateway)
        return { address: decodeNetwork(Address), ...(gateway === undefined ? {} : { gateway }) }
      }),
    routes: listOf(value, "Routes").filter(isGobObject).map(decodeRoute),
    dns: isGobObject(value.DNS) ? decodeDns(value.DNS) : {},
  }
}

function decodeRoute(route: GobObject): Route {
  const decoded: Route = { dst: decodeNetwork(route.Dst) }
  const gw = decodeIp(route.GW)
  if (gw !== undefined) decoded.gw = gw
  for (const [name, key] of routeNumbers) {
    const value = route[name]
    if (typeof value === "number") decoded[key] = value
  }
  return decoded
}

function decodeDns(dns: GobObject): Dns {
  const domain = textOf(dns, "Domain")
  const [nameservers, search, options] = [textsOf(dns, "Nameservers"), textsOf(dns, "Search"), textsOf(dns, "Options")]
  return {
    ...(nameservers.length > 0 ? { nameservers } : {}),
    ...(domain === "" ? {} : { domain }),
    ...(search.length > 0 ? { search } : {}),
    ...(options.length > 0 ? { options } : {}),
  }
}

function encodeIp(ip: string | undefined): Uint8Array {
  return parseIp(ip ?? "") ?? new Uint8Array()
}

function encodeNetwork(cidr: string): GobObject {
  const parsed = parseCidr(cidr)
  return parsed ? { IP: parsed.ip, Mask: prefixMask(parsed.ip.length, parsed.prefix) } : {}
}

function decodeIp(bytes: GobValue | undefined): string | undefined {
  if (bytes === undefined) return undefined
  if (bytes instanceof Uint8Array && (bytes.length === 4 || bytes.length === 16)) return formatIp(unmapped(bytes))
  throw new GobError("an address has neither 4 nor 16 bytes")
}

function decodeNetwork(value: GobValue | undefined): string {
  const { IP, Mask } = isGobObject(value) ? value : {}
  if (!(IP instanceof Uint8Array && (IP.length === 4 || IP.length === 16)))
    throw new GobError("a network has no address")
  const ip = unmapped(IP)
  const mask = Mask instanceof Uint8Array ? Mask : new Uint8Array() // Go omits an empty mask
  const bits = [...mask.subarray(mask.length - ip.length)].map((byte) => byte.toString(2).padStart(8, "0")).join("")
  const prefix = bits.indexOf("0") === -1 ? bits.length : bits.indexOf("0")
  if (bits.includes("1", prefix)) throw new GobError("the mask of a network is not contiguous")
  return formatCidr({ ip, prefix })
}

/** Returns the text of a field, or "" if it is absent, because zero values are not sent. */
export function textOf(value: GobObject, name: string): string {
  const field = value[name] ?? ""
  if (typeof field === "string") return field
  throw new GobError(`${name} is not a string`)
}

function listOf(value: GobObject, name: string): readonly GobValue[] {
  const list = value[name] ?? []
  if (Array.isArray(list)) return list
  throw new GobError(`${name} is not a list`)
}

function textsOf(value: GobObject, name: string): string[] {
  return listOf(value, name).filter((each) => typeof each === "string")
}
