import { formatPlace } from "./filter.ts"
import { readIfThere } from "./kernel.ts"
import { IPPROTO, type Packet } from "./packet.ts"

/**
 * Returns the servers of ip_vs for a packet's destination, as `ipvsadm -Ln` lists them. kube-proxy in mode ipvs
 * configures them. Returns undefined if the destination is not a virtual service.
 */
export function virtualServers(packet: Packet, text = readIfThere("/proc/net/ip_vs")): string[] | undefined {
  const protocol = { [IPPROTO.tcp]: "TCP", [IPPROTO.udp]: "UDP" }[packet.protocol]
  const service = `${protocol}  ${placeOf(packet)} `
  const lines = text?.split("\n") ?? []
  const at = lines.findIndex((line) => line.startsWith(service))
  if (at === -1) return undefined
  const end = lines.findIndex((line, index) => index > at && !line.startsWith("  ->"))
  const servers = lines.slice(at + 1, end === -1 ? undefined : end)
  return servers.flatMap((line) => /^ {2}-> (\S+)/.exec(line)?.[1] ?? []).map(readPlace)
}

/** Formats a packet's destination like /proc/net/ip_vs: "0A60000A:0050", "[2001:0db8:…:0001]:0050". */
function placeOf({ destination, destinationPort }: Packet): string {
  const hex = destination.toHex()
  const port = destinationPort.toString(16).toUpperCase().padStart(4, "0")
  return destination.length === 4 ? `${hex.toUpperCase()}:${port}` : `[${hex.match(/.{4}/g)?.join(":")}]:${port}`
}

function readPlace(place: string): string {
  const [, address = "", port = "0"] = /^\[?([0-9A-Fa-f:]+?)\]?:([0-9A-Fa-f]{4})$/.exec(place) ?? []
  return formatPlace(Uint8Array.fromHex(address.replaceAll(":", "")), Number.parseInt(port, 16))
}
