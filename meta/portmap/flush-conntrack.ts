import { flushConntrack, flushUntranslated } from "../../pkg/conntrack/mod.ts"
import { listAddresses, type NetlinkSocket, RouteSocket } from "../../pkg/netlink/mod.ts"
import { familyOf } from "../../pkg/types/mod.ts"
import {
  type DnatMapping,
  families,
  type HostPort,
  isLoopback,
  type MappedAddress,
  type Mapping,
  type PortmapSpec,
  protocolNumber,
} from "./mapping.ts"

/**
 * Flushes stale UDP conntrack entries of mapped ports: those from before the mappings, and those with another target.
 * The kernel treats all packets of a flow like the first one, so the flow of such an entry would never use the mapping.
 * Entries for ports of other hosts stay. So do entries to addresses in `ahead`, because these addresses have the ports
 * while the new mappings wait. Throws `NetlinkError`.
 */
export function flushOlderEntries(
  socket: NetlinkSocket,
  addresses: readonly MappedAddress[],
  ahead: readonly Uint8Array[],
): void {
  const inForce = new Set(ahead.map(String))
  for (const { family, address, mappings } of addresses) {
    const udp = mappings.filter(isUdp)
    if (udp.length === 0) continue
    let local: Set<string> | undefined // requested only if an entry matches, which is rare
    const isLocal = (ip: Uint8Array) => {
      local ??= localAddresses()
      return local.has(String(ip)) || isLoopback(ip)
    }
    flushConntrack(socket, { family, ...udpTo(udp) }, ({ original, reply }) => {
      const mapping = mappingFor(udp, original.destination, original.destinationPort)
      if (!mapping || inForce.has(String(reply.source)) || !isLocal(original.destination)) return false
      return String(reply.source) !== String(address.ip) || reply.sourcePort !== mapping.containerPort
    })
  }
}

/** Flushes the UDP conntrack entries that were translated by deleted mappings. Throws `NetlinkError`. */
export function flushEntriesOf(socket: NetlinkSocket, deleted: readonly DnatMapping[]): void {
  for (const family of families) {
    const udp = deleted.filter((mapping) => isUdp(mapping) && familyOf(mapping.containerIp) === family)
    if (udp.length === 0) continue
    const ends = new Set(udp.map(({ hostPort, containerIp }) => `${hostPort} ${containerIp}`))
    flushConntrack(socket, { family, ...udpTo(udp) }, ({ original, reply }) => {
      return ends.has(`${original.destinationPort} ${reply.source}`)
    })
  }
}

/**
 * Flushes the conntrack entries of mapped ports that began while the mappings were missing. The kernel would send their
 * packets to the host itself even now. Throws `NetlinkError`.
 */
export function flushUnmapped(socket: NetlinkSocket, specs: readonly Pick<PortmapSpec, "addresses">[]): void {
  const addresses = specs.flatMap((spec) => spec.addresses)
  for (const [family, ours] of Map.groupBy(addresses, (one) => one.family)) {
    const byPort = Map.groupBy(
      ours.flatMap(({ mappings }) => mappings),
      ({ hostPort }) => hostPort,
    )
    flushUntranslated(socket, family, ({ protocol, destination, destinationPort }) => {
      const mappings = (byPort.get(destinationPort) ?? []).filter((one) => protocolNumber[one.protocol] === protocol)
      return mappingFor(mappings, destination, destinationPort) !== undefined
    })
  }
}

function isUdp({ protocol }: HostPort): boolean {
  return protocol === "udp"
}

function udpTo(mappings: readonly HostPort[]): { protocol: number; ports: readonly number[] } {
  return { protocol: protocolNumber.udp, ports: mappings.map(({ hostPort }) => hostPort) }
}

/** Returns the mapping for packets to a port of the address `ip`. A mapping for `ip` precedes one for all addresses. */
function mappingFor(mappings: readonly Mapping[], ip: Uint8Array, port: number): Mapping | undefined {
  const ours = mappings.filter(({ hostPort }) => hostPort === port)
  return ours.find(({ hostIp }) => String(hostIp) === String(ip)) ?? ours.find(({ hostIp }) => hostIp === undefined)
}

function localAddresses(): Set<string> {
  using host = RouteSocket.open()
  return new Set(listAddresses(host).map(({ ip }) => String(ip)))
}
