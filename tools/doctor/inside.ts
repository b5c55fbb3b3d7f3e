import type { NetworkPlugin } from "../../pkg/libcni/mod.ts"
import {
  type BriefLink,
  IFF_LOOPBACK,
  IFF_UP,
  type ListedRoute,
  RT_TABLE_MAIN,
  RTN_UNICAST,
} from "../../pkg/netlink/mod.ts"
import {
  AF_INET6,
  type Cidr,
  familyOf,
  formatCidr,
  formatIp,
  networkOf,
  parseCidr,
  parseIp,
  type Route,
  sameBytes,
} from "../../pkg/types/mod.ts"
import {
  type AskedMapping,
  askedMappings,
  type Inside,
  type NodeAttachment,
  type NotInside,
  recordedPlugins,
} from "../node/mod.ts"
import { type Command, giveAddress, setSysctl, sh } from "./remedy.ts"

/** An attachment of a running container, with the state of its namespace. */
export interface Examined {
  readonly one: NodeAttachment
  readonly inside: Inside
  readonly interfaces: readonly ExaminedInterface[]
  /** The plugins of the network, as the ADD used them. */
  readonly plugins: readonly NetworkPlugin[]
  /** The interface names of all attachments to the namespace: several if Multus attached the pod. */
  readonly linkNames: ReadonlySet<string>
}

/** A container's interface in ADD's result, and the link that has its name. */
export interface ExaminedInterface {
  readonly name: string
  readonly mac: string | undefined
  readonly mtu: number | undefined
  readonly addresses: readonly Address[]
  /** The link with this name. Undefined if it is missing, or if the list of links was too long to read. */
  readonly link: BriefLink | undefined
}

export interface Address extends Cidr {
  readonly text: string
  readonly gateway: Uint8Array | undefined
}

/** Returns the attachments with a known result and a readable namespace. */
export function examinedOf(
  attachments: readonly NodeAttachment[],
  insides: ReadonlyMap<string, Inside | NotInside>,
): Examined[] {
  const found = attachments.flatMap((one) => {
    const inside = one.isAlive === false || one.netns === undefined ? undefined : insides.get(one.netns)
    if (!one.result || !inside || "reason" in inside) return []
    return [{ one, inside, plugins: recordedPlugins(one.cached) ?? [], interfaces: interfacesOf(one, inside) }]
  })
  const byNamespace = Map.groupBy(found, ({ inside }) => inside.inode)
  return [...byNamespace.values()].flatMap((group) => {
    const linkNames = new Set(group.flatMap(({ interfaces }) => interfaces.map(({ name }) => name)))
    return group.map((each) => ({ ...each, linkNames }))
  })
}

/**
 * Returns the container's interfaces in the result: those whose `sandbox` is a path. Plugins of cloud providers record
 * other values for interfaces outside of the container.
 */
function interfacesOf({ result, ifName }: NodeAttachment, { links }: Inside): ExaminedInterface[] {
  const { interfaces = [], ips = [] } = result ?? {}
  const inContainer = interfaces.flatMap((each, at) => (each.sandbox?.startsWith("/") ? [{ ...each, at }] : []))
  const named = inContainer.length > 0 || ips.length === 0 ? inContainer : [{ name: ifName, mac: "", at: -1 }]
  return named.map(({ name, mac, at, ...others }) => ({
    name,
    mac: mac ? mac.toLowerCase() : undefined,
    mtu: "mtu" in others ? others.mtu : undefined,
    addresses: ips.flatMap(({ address, gateway, interface: index }) => {
      const cidr = parseCidr(address.includes("/") ? address : `${address}/${address.includes(":") ? 128 : 32}`)
      const isItsOwn = index === at || ((index === undefined || interfaces[index] === undefined) && name === ifName)
      return cidr && isItsOwn ? [{ ...cidr, text: address, gateway: gateway ? parseIp(gateway) : undefined }] : []
    }),
    link: links?.find((link) => link.name === name),
  }))
}

export function isUp({ flags }: BriefLink): boolean {
  return (flags & IFF_UP) !== 0
}

export function isLoopback({ flags }: BriefLink): boolean {
  return (flags & IFF_LOOPBACK) !== 0
}

/** A route that exists after ADD. */
export interface WantedRoute {
  readonly dst: Uint8Array
  readonly prefix: number
  readonly gateway: Uint8Array | undefined
  /** "result": a route in ADD's result. "gateway", "network": to the gateway or a subnet, by the kernel or ptp. */
  readonly origin: "gateway" | "network" | "result"
  readonly source: Uint8Array | undefined
  readonly route: Route | undefined
}

/** Returns the routes that an attachment's interfaces have after ADD, in an order that the kernel accepts. */
export function wantedRoutes(examined: Examined): WantedRoute[] {
  const { one, interfaces } = examined
  const addresses = interfaces.flatMap((each) => (each.name === "lo" ? [] : each.addresses))
  const isPointToPoint = examined.plugins.some(({ type }) => type === "ptp")
  const own = addresses.flatMap(({ ip, prefix, gateway }): WantedRoute[] => {
    const bits = 8 * ip.length
    const network = { dst: networkOf({ ip, prefix }), prefix, source: ip, origin: "network", route: undefined } as const
    const via = isPointToPoint && gateway ? gateway : undefined
    return [
      ...(via ? [{ ...network, dst: via, prefix: bits, gateway: undefined, origin: "gateway" } as const] : []),
      ...(prefix < bits ? [{ ...network, gateway: via }] : []),
    ]
  })
  const ofResult = (one.result?.routes ?? []).flatMap((route): WantedRoute[] => {
    const dst = parseCidr(route.dst)
    if (!dst) return []
    const sibling = addresses.find(({ ip, gateway }) => gateway && familyOf(ip) === familyOf(dst.ip))
    const gateway = route.gw ? parseIp(route.gw) : sibling?.gateway
    return [{ dst: networkOf(dst), prefix: dst.prefix, gateway, origin: "result", source: undefined, route }]
  })
  const isInResult = ({ dst, prefix }: WantedRoute) =>
    ofResult.some((other) => other.prefix === prefix && sameBytes(other.dst, dst))
  return [...own.filter((route) => !isInResult(route)), ...ofResult]
}

/** Returns the missing routes. Returns none if the list of routes was too long to read. */
export function missingRoutes(examined: Examined): WantedRoute[] {
  const { routes } = examined.inside
  if (routes === undefined) return []
  return wantedRoutes(examined).filter(
    (wanted) => !routes.some((route) => isSameDestination(route, wanted) && isAsGood(route, wanted, examined)),
  )
}

/** Reports whether a route of any table has the wanted destination: sbr and vrf move routes to their own tables. */
export function isSameDestination({ dst, prefix, type }: ListedRoute, wanted: WantedRoute): boolean {
  return type === RTN_UNICAST && prefix === wanted.prefix && sameBytes(dst, wanted.dst)
}

/** Reports whether a route has the wanted gateway, or uses another attachment, because a pod has one default route. */
function isAsGood({ gateway, index, nextHops }: ListedRoute, wanted: WantedRoute, examined: Examined): boolean {
  if (wanted.origin !== "result" || wanted.gateway === undefined || !wanted.route?.gw) return true
  if (nextHops || (gateway && sameBytes(gateway, wanted.gateway))) return true
  const { inside, interfaces, linkNames } = examined
  const by = inside.links?.find((link) => link.index === index)?.name
  return by !== undefined && linkNames.has(by) && !interfaces.some(({ name }) => name === by)
}

/** Returns the commands that restore an interface to its state after ADD. Omits objects that exist. */
export function repairCommands(examined: Examined, { name, link, addresses }: ExaminedInterface): Command[] {
  const up = link && isUp(link) ? [] : [sh`ip link set ${name} up`]
  const missing = addresses.filter((address) => !hasAddress(examined.inside, link, address))
  const isWithoutIpv6 = !examined.inside.addresses?.some(({ index, ip }) => index === link?.index && ip.length === 16)
  const isWanted = missing.some(({ ip }) => familyOf(ip) === AF_INET6)
  return [
    // If the interface has no IPv6 address, IPv6 may be disabled: the kernel then accepts no IPv6 address.
    ...(isWithoutIpv6 && isWanted ? [setSysctl(`net/ipv6/conf/${name}/disable_ipv6`, 0)] : []),
    ...up,
    ...missing.map(({ text }) => giveAddress(text, name)),
    ...missingRoutes(examined).map((route) => routeCommand(route, name)),
  ]
}

/** Returns commands that restore a name. They set the link down first, so they also restore addresses and routes. */
export function renameCommands(
  examined: Examined,
  { name, addresses }: ExaminedInterface,
  otherName: string,
): Command[] {
  return [
    sh`ip link set ${otherName} down`,
    sh`ip link set ${otherName} name ${name} up`,
    ...addresses.map(({ text }) => giveAddress(text, name)),
    ...wantedRoutes(examined).map((route) => routeCommand(route, name)),
  ]
}

/** Returns the `ip route replace` command that restores a route as the plugin created it. */
export function routeCommand({ dst, prefix, gateway, origin, source, route }: WantedRoute, name: string): Command {
  const option = (key: string, value: string | number | undefined) => (value === undefined ? [] : [key, String(value)])
  const words = [
    prefix === 0 ? "default" : formatCidr({ ip: dst, prefix }),
    ...option("via", gateway && formatIp(gateway)),
    ...["dev", name],
    ...(origin === "gateway" ? ["scope", "link"] : []),
    ...(origin === "network" && !gateway ? ["proto", "kernel", "scope", "link"] : []),
    ...option("src", source && formatIp(source)),
    ...option("metric", route?.priority),
    ...(route?.table === undefined || route.table === RT_TABLE_MAIN ? [] : ["table", String(route.table)]),
    ...option("mtu", route?.mtu),
    ...option("advmss", route?.advmss),
  ]
  return familyOf(dst) === AF_INET6 ? sh`ip -6 route replace ${words}` : sh`ip route replace ${words}`
}

export function hasAddress({ addresses }: Inside, link: BriefLink | undefined, { ip, prefix }: Cidr): boolean {
  if (addresses === undefined) return true
  return addresses.some((there) => there.index === link?.index && there.prefix === prefix && sameBytes(there.ip, ip))
}

/** Returns one shell line, for the host, that runs commands in a container's namespace. */
export function inContainer({ path }: Inside, commands: readonly Command[]): Command {
  const [first] = commands
  const net = `--net=${path}`
  if (first && commands.length === 1) return sh`nsenter ${net} ${first}`
  return sh`nsenter ${net} sh -ec ${commands.map(({ line }) => line).join("; ")}`
}

/** Returns the port mappings at the host's 127.0.0.1, which need `route_localnet` on the container's interface. */
export function localMappings({ one, plugins }: Pick<Examined, "one" | "plugins">): AskedMapping[] {
  const portmap = plugins.find(({ type }) => type === "portmap")
  if (portmap === undefined || portmap.raw.snat === false || one.cached === undefined) return []
  return askedMappings(one.cached).filter(({ hostIp }) => hostIp === "" || hostIp.startsWith("127."))
}
