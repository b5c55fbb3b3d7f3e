import { waitUntil } from "../../pkg/ip/mod.ts"
import { listLinks, RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import {
  AF_INET,
  AF_INET6,
  type Cidr,
  CniError,
  Code,
  type Family,
  familyOf,
  formatIp,
  type Owner,
  parseCidr,
  type Result,
} from "../../pkg/types/mod.ts"

/** The kernel deletes a namespace with its interfaces some time after the last that used it. */
const CLEANUP_DEADLINE_MS = 2000

/** The protocols whose ports can be mapped. */
export const protocols = ["tcp", "udp", "sctp"] as const

export type Protocol = (typeof protocols)[number]

/** `IPPROTO_*` */
export const protocolNumber = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<Protocol, number>

export const families = [AF_INET, AF_INET6] as const

/** A port of the host, of all its addresses or of one. */
export interface HostPort {
  protocol: Protocol
  hostPort: number
  /** The one address of the host that it is of. Undefined: every one. */
  hostIp: Uint8Array | undefined
}

/** Packets to a port of the host go to a port of the container. */
export interface Mapping extends HostPort {
  containerPort: number
  /** Undefined: every family that the container has an address of. */
  family: Family | undefined
}

/** A mapping to one address of a container. */
export interface DnatMapping extends HostPort {
  containerIp: Uint8Array
  containerPort: number
}

/** An address of the container, and its mappings. There is at most one for each family. */
export interface MappedAddress {
  family: Family
  /** Includes the prefix length of its network. */
  address: Cidr
  /** At least one; no two for the same port. */
  mappings: readonly Mapping[]
}

/** The mappings of one attachment. */
export interface PortmapSpec {
  owner: Owner
  /** The path of the container's namespace. */
  netns: string
  addresses: readonly MappedAddress[]
  /** All mappings, also those of a family that the container has no address of. */
  mappings: readonly Mapping[]
  snat: boolean
  masqAll: boolean
  /** Additional conditions for packets, as parts of a rule of the backend's program. */
  conditions: Readonly<Record<Family, readonly string[]>>
  /** For iptables: the bit of the packet's mark that requests the masquerade. */
  markMasqBit: number
  /** For iptables: an existing chain that sets such a mark. Its owner then also masquerades. */
  externalSetMarkChain: string | undefined
  /**
   * The interface that needs `route_localnet` and outlives the container: the setting is not to outlive the mappings.
   */
  localnetLink: string | undefined
  /** The interface that needs `route_localnet`, also where it is the container's alone. */
  openedLink: string | undefined
}

/** Hints from the configuration: the places that DEL searches first. They may be missing or wrong. */
export interface HostportHints {
  readonly mappings: readonly Mapping[]
  /** Of the container. */
  readonly addresses: readonly Uint8Array[]
  /** The host's interfaces towards the container. */
  readonly links?: readonly string[]
}

/**
 * Returns the container's first address of each family in the previous result, with the mappings for this family.
 */
export function mappedAddresses(result: Result, ifName: string, mappings: readonly Mapping[]): MappedAddress[] {
  const addresses = result.ips.flatMap(({ address, interface: index }): Cidr[] => {
    const link = index === undefined ? undefined : result.interfaces[index]
    const isContainers = link === undefined || (link.name === ifName && Boolean(link.sandbox))
    const cidr = isContainers ? parseCidr(address) : undefined
    return cidr ? [cidr] : []
  })
  return families.flatMap((family): MappedAddress[] => {
    const address = addresses.find(({ ip }) => familyOf(ip) === family)
    if (!address) return []
    const ours = mappingsFor(family, mappings)
    return ours.length > 0 ? [{ family, address, mappings: ours }] : []
  })
}

/** The mappings for a family, each once. */
export function mappingsFor(family: Family, mappings: readonly Mapping[]): Mapping[] {
  const ours = mappings.filter((mapping) => mapping.family === undefined || mapping.family === family)
  if (ours.length < 2) return ours
  return [...new Map(ours.map((mapping) => [printHostPort(mapping), mapping])).values()]
}

/** The mappings to addresses of a container. */
export function dnatMappings(ips: readonly Uint8Array[], mappings: readonly Mapping[]): DnatMapping[] {
  return ips.flatMap((containerIp) =>
    mappingsFor(familyOf(containerIp), mappings).map((mapping) => ({ ...mapping, containerIp })),
  )
}

/** As text: "8080/tcp", "203.0.113.1:8080/tcp", "[2001:db8::1]:8080/tcp". */
export function printHostPort({ protocol, hostPort, hostIp }: HostPort): string {
  return hostIp ? `${printIpPort(hostIp, hostPort)}/${protocol}` : `${hostPort}/${protocol}`
}

/** An address with a port: "10.1.0.2:80", "[fd00::2]:80". */
export function printIpPort(ip: Uint8Array, port: number): string {
  return familyOf(ip) === AF_INET ? `${formatIp(ip)}:${port}` : `[${formatIp(ip)}]:${port}`
}

/** Returns whether an address is in 127.0.0.0/8. */
export function isLoopback(ip: Uint8Array): boolean {
  return familyOf(ip) === AF_INET && ip[0] === 127
}

/**
 * Returns whether the container that holds a port is provably gone: the path of its namespace is empty, and no
 * interface of the host has its name as alias, as our plugins' interfaces do. The kernel may need two seconds to delete
 * such an interface. The device of bandwidth does not count, since it stays until DEL or GC. Returns false in doubt.
 */
export function isHolderGone(comment: string | undefined, netns: string | undefined): boolean {
  if (comment === undefined || netns === undefined || !isNothingAt(netns)) return false
  using host = RouteSocket.open()
  // Links of other kinds are the device of bandwidth, and hardware that a container renamed before the kernel returned
  // it.
  const isUnlinked = () =>
    !listLinks(host).some(({ kind, attributes }) => kind === "veth" && attributes.alias === comment)
  if (isUnlinked()) return true
  using events = RouteSocket.subscribe(RouteGroup.Link)
  return waitUntil(events, CLEANUP_DEADLINE_MS, isUnlinked)
}

function isNothingAt(path: string): boolean {
  try {
    using found = Netns.find(path)
    return found === undefined
  } catch {
    return false // something else lies there
  }
}

/** The error for a port that another container holds. */
export function portTaken(wanted: { port: string; target: string; owner: string }, holder: Holder): CniError {
  const { port, target, owner } = wanted
  return new CniError(
    Code.Internal,
    `Cannot map host port ${port} to ${target} for ${owner}: it is mapped to ${holder.target} for ${holder.name ?? "an unknown attachment"}`,
    {
      details:
        "the names are network/container/interface; run DEL for that attachment first, or choose another hostPort",
    },
  )
}

/** The target of a host port and the name of its attachment; undefined if they are unknown. */
export interface Holder {
  target: string | undefined
  name: string | undefined
}
