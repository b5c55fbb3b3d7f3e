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

/** The time within which the kernel deletes a namespace with its interfaces after its last user has ended. */
const CLEANUP_DEADLINE_MS = 2000

export const protocols = ["tcp", "udp", "sctp"] as const

export type Protocol = (typeof protocols)[number]

/** `IPPROTO_*` */
export const protocolNumber = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<Protocol, number>

export const families = [AF_INET, AF_INET6] as const

/** A port of the host, on all of the host's addresses or on one of them. */
export interface HostPort {
  protocol: Protocol
  hostPort: number
  /** The address of the host; undefined means all addresses. */
  hostIp: Uint8Array | undefined
}

export interface Mapping extends HostPort {
  containerPort: number
  /** The address family; undefined means every family of the container's addresses. */
  family: Family | undefined
}

/** A mapping of a host port to one address of a container. */
export interface DnatMapping extends HostPort {
  containerIp: Uint8Array
  containerPort: number
}

/** An address of the container with its mappings. A container has at most one such address per family. */
export interface MappedAddress {
  family: Family
  /** The address with the prefix length of its network. */
  address: Cidr
  /** At least one mapping, and no two for the same host port. */
  mappings: readonly Mapping[]
}

export interface PortmapSpec {
  owner: Owner
  netns: string
  addresses: readonly MappedAddress[]
  /** All mappings, including those of a family in which the container has no address. */
  mappings: readonly Mapping[]
  snat: boolean
  masqAll: boolean
  /** Additional conditions for packets, as parts of a rule in the syntax of the backend's program. */
  conditions: Readonly<Record<Family, readonly string[]>>
  /** For iptables: the bit of the packet's mark that requests masquerading. */
  markMasqBit: number
  /** For iptables: an existing chain that sets such a mark. The program that created the chain must also masquerade. */
  externalSetMarkChain: string | undefined
  /** The interface that outlives the container and needs `route_localnet`, to be disabled with the last mapping. */
  localnetLink: string | undefined
  /** The interface that needs `route_localnet`, even if it is deleted with the container. */
  openedLink: string | undefined
}

/** Hints from the configuration, which may be missing or wrong. DEL searches there first. */
export interface HostportHints {
  readonly mappings: readonly Mapping[]
  readonly addresses: readonly Uint8Array[]
  /** The host's interfaces to the container. */
  readonly links?: readonly string[]
}

/** Returns the container's first address of each family in a result, with the mappings for that family. */
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

/** Returns the mappings for a family, without duplicates. */
export function mappingsFor(family: Family, mappings: readonly Mapping[]): Mapping[] {
  const ours = mappings.filter((mapping) => mapping.family === undefined || mapping.family === family)
  if (ours.length < 2) return ours
  return [...new Map(ours.map((mapping) => [printHostPort(mapping), mapping])).values()]
}

export function dnatMappings(ips: readonly Uint8Array[], mappings: readonly Mapping[]): DnatMapping[] {
  return ips.flatMap((containerIp) =>
    mappingsFor(familyOf(containerIp), mappings).map((mapping) => ({ ...mapping, containerIp })),
  )
}

/** Formats a host port: "8080/tcp", "203.0.113.1:8080/tcp", "[2001:db8::1]:8080/tcp". */
export function printHostPort({ protocol, hostPort, hostIp }: HostPort): string {
  return hostIp ? `${printIpPort(hostIp, hostPort)}/${protocol}` : `${hostPort}/${protocol}`
}

/** Formats an address with a port: "10.1.0.2:80", "[fd00::2]:80". */
export function printIpPort(ip: Uint8Array, port: number): string {
  return familyOf(ip) === AF_INET ? `${formatIp(ip)}:${port}` : `[${formatIp(ip)}]:${port}`
}

/** Reports whether an address is in 127.0.0.0/8. */
export function isLoopback(ip: Uint8Array): boolean {
  return familyOf(ip) === AF_INET && ip[0] === 127
}

/**
 * Reports whether the container that holds a port provably no longer exists: no file exists at the path of its
 * namespace, and no veth of the host has its owner `comment` as alias, as our plugins' interfaces do. This may wait two
 * seconds, because the kernel deletes interfaces late. Returns false in doubt.
 */
export function isHolderGone(comment: string | undefined, netns: string | undefined): boolean {
  if (comment === undefined || netns === undefined || !isNothingAt(netns)) return false
  using host = RouteSocket.open()
  // Other kinds of links are ignored: bandwidth's device stays until DEL or GC, and a container may have renamed a
  // hardware interface before the kernel returned it.
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
    return false // the path is of another kind of file
  }
}

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

/** The container port and the attachment that a host port is mapped to; undefined if unknown. */
export interface Holder {
  target: string | undefined
  name: string | undefined
}
