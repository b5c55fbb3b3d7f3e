import { deleteFlows } from "../../pkg/conntrack/mod.ts"
import { listAddresses, type NetlinkSocket, RouteSocket } from "../../pkg/netlink/mod.ts"
import { families, type Mapping, protocolNumber } from "./mapping.ts"
import type { Found } from "./nftables/elements.ts"
import type { Part } from "./parts.ts"

const LOOPBACK = 127

/**
 * Forgets the UDP flows to the mapped ports that began before there was a mapping, or with another one: for as long as
 * packets come, the kernel would go on as with the first of them. Flows to other hosts' ports stay, and so do those to
 * addresses that are `ahead`: where ports lead for which the mapping stands by. Throws `NetlinkError`.
 */
export function forgetOlderFlows(socket: NetlinkSocket, parts: readonly Part[], ahead: readonly Uint8Array[]): void {
  const inForce = new Set(ahead.map(String))
  for (const { family, address, mappings } of parts) {
    const udp = mappings.filter(({ protocol }) => protocol === "udp")
    if (udp.length === 0) continue
    let local: Set<string> | undefined // asked for when there is a flow to judge, which is seldom
    const isLocal = (ip: Uint8Array) => {
      local ??= localAddresses()
      return local.has(String(ip)) || (ip.length === 4 && ip[0] === LOOPBACK)
    }
    const flows = { family, protocol: protocolNumber.udp, ports: udp.map(({ hostPort }) => hostPort) }
    deleteFlows(socket, flows, ({ original, reply }) => {
      const mapping = mappingFor(udp, original.destination, original.destinationPort)
      if (!mapping || inForce.has(String(reply.source)) || !isLocal(original.destination)) return false
      return String(reply.source) !== String(address.ip) || reply.sourcePort !== mapping.containerPort
    })
  }
}

/** Forgets the UDP flows that have gone through these mappings, which are gone. Throws `NetlinkError`. */
export function forgetFlowsThrough(socket: NetlinkSocket, gone: readonly Found[]): void {
  for (const family of families) {
    const udp = gone.filter(({ protocol, ip }) => protocol === "udp" && ip.length === (family === "ip" ? 4 : 16))
    if (udp.length === 0) continue
    const ends = new Set(udp.map(({ hostPort, ip }) => `${hostPort} ${ip}`))
    const flows = { family, protocol: protocolNumber.udp, ports: udp.map(({ hostPort }) => hostPort) }
    deleteFlows(socket, flows, ({ original, reply }) => ends.has(`${original.destinationPort} ${reply.source}`))
  }
}

/** The mapping that takes what is sent to a port of an address: one for this address goes first. */
function mappingFor(mappings: readonly Mapping[], ip: Uint8Array, port: number): Mapping | undefined {
  const ours = mappings.filter(({ hostPort }) => hostPort === port)
  return ours.find(({ hostIp }) => String(hostIp) === String(ip)) ?? ours.find(({ hostIp }) => hostIp === undefined)
}

function localAddresses(): Set<string> {
  using host = RouteSocket.open()
  return new Set(listAddresses(host).map(({ ip }) => String(ip)))
}
