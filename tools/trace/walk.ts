import { findLink, IFF_UP, RouteSocket } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, familyOf, formatIp, parseIp } from "../../pkg/types/mod.ts"
import {
  describeLostBridge,
  type FilterView,
  lostBridge,
  type Node,
  type NodeAttachment,
  type NodeLink,
} from "../node/mod.ts"
import type { Packet } from "./evaluate.ts"
import { has, isConntrackFull, isOfLink, nameOf, routeTo, sourceOf, sysctl } from "./facts.ts"
import { passHook } from "./filter.ts"
import { type Destination, type Hop, Way } from "./way.ts"

/** What a walk needs to know. */
export interface Ground {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  readonly attachment: NodeAttachment
  readonly filter: FilterView | undefined
}

/** The way of a packet that begins a connection from a container, read from routes, links and rules. Changes nothing. */
export function walk(ground: Ground, sandbox: Netns, destination: Destination): Hop[] {
  const way = new Way()
  const { attachment, node } = ground
  using inside = sandbox.openRoute()
  const link = findLink(inside, attachment.ifName)
  if (!link) return way.end(`the container has no interface "${attachment.ifName}"`)
  if ((link.flags & IFF_UP) === 0) return way.end(`"${attachment.ifName}" in the container is down`)
  const route = routeTo(inside, destination.ip)
  if (typeof route === "string") return way.end(`the container ${route}`)
  const gateway = route.gateway && formatIp(route.gateway)
  const source = route.preferredSource ?? sourceOf(attachment, destination)
  if (!source) return way.end(`the container has no address of the family of ${formatIp(destination.ip)}`)
  way.pass(
    "container",
    `from ${formatIp(source)} by "${nameOf(inside, route.index) ?? attachment.ifName}"${gateway === undefined ? ", directly" : ` to gateway ${gateway}`}`,
  )
  if (route.type === 2) return way.arrive("it stays in the container: the address is its own")

  const end = attachment.link
  if (!end || end.nsid !== undefined)
    return way.arrive(
      `the interface has no end on the host: it goes on by what it sits on, and ${formatIp(destination.ip)} answers or not`,
    )
  if (!end.isUp) return way.end(`"${end.name}", the host's end, is down`)
  const lost = lostBridge(attachment, node)
  if (lost) return way.end(`${describeLostBridge(lost)}: the container is cut off`)
  const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
  if (bridge && !bridge.isUp) return way.end(`bridge "${bridge.name}" is down`)
  if (bridge) way.pass("bridge", `port "${end.name}" of bridge "${bridge.name}"`)
  const packet = packetOf(ground.node, source, destination, (bridge ?? end).name)
  if (gateway === undefined && bridge && !isOfLink(bridge, destination.ip))
    return throughBridge(way, ground, bridge, packet)
  return throughHost(way, ground, packet, destination)
}

/** To another container of the bridge: frames, which pass the packet filter only where br_netfilter sends them there. */
function throughBridge(way: Way, { attachments, node, filter }: Ground, bridge: NodeLink, packet: Packet): Hop[] {
  const text = formatIp(packet.destination)
  const other = attachments.find(({ addresses }) => addresses.some((address) => address.split("/")[0] === text))
  if (!other)
    return way.end(
      `no container of bridge "${bridge.name}" is known to have ${text}: nothing answers ARP, unless it is beyond a port of the bridge`,
    )
  const port = node.links.find(({ nsid, name }) => nsid === undefined && name === other.link?.name)
  if (!port || port.master !== bridge.index)
    return way.end(`${describe(other)} has ${text}, and no port of bridge "${bridge.name}"`)
  if (!port.isUp) return way.end(`port "${port.name}" of ${describe(other)} is down`)
  const call = familyOf(packet.destination) === AF_INET ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables"
  if (filter && sysctl(`net/bridge/${call}`) === "1") {
    way.pass("bridge", `net.bridge.${call} is 1: frames pass the packet filter as well`)
    if (!passed(way, filter, "forward", { ...packet, input: bridge.name, output: bridge.name }, false))
      return dropped(way)
  }
  return way.arrive(`it reaches ${describe(other)} by port "${port.name}"`)
}

function describe({ network, containerId, ifName, pod }: NodeAttachment): string {
  return pod === undefined ? `container ${network}/${containerId}/${ifName}` : `pod ${pod.namespace}/${pod.name}`
}

/** `IPPROTO_*` */
function protocolOf({ protocol, ip }: Destination): number {
  return { tcp: 6, udp: 17, icmp: familyOf(ip) === AF_INET ? 1 : 58 }[protocol]
}

/** The first packet of a connection, as it comes to the host. */
function packetOf({ links }: Node, source: Uint8Array, destination: Destination, input: string): Packet {
  return {
    source,
    destination: destination.ip,
    protocol: protocolOf(destination),
    destinationPort: destination.port,
    input,
    output: "",
    isLocal: links.some((link) => link.nsid === undefined && isOfLink(link, destination.ip)),
    isMapped: false,
  }
}

function throughHost(way: Way, ground: Ground, packet: Packet, destination: Destination): Hop[] {
  const { node, filter } = ground
  const { isLocal } = packet
  if (isConntrackFull()) return way.end("the table of connections is full: the kernel drops what begins a new one")
  if (filter && !passed(way, filter, "prerouting", packet, isLocal)) return dropped(way)
  const mapped = isLocal ? mappedTo(node, destination) : undefined
  if (mapped) {
    way.pass("nat", `port ${destination.port} of the host leads to ${mapped.text} (${mapped.owner})`)
    return forward(way, ground, {
      ...packet,
      destination: mapped.ip,
      destinationPort: mapped.port,
      isLocal: false,
      isMapped: true,
    })
  }
  if (!isLocal) return forward(way, ground, packet)
  way.pass("host", `${formatIp(destination.ip)} is an address of the host`)
  if (filter && !passed(way, filter, "input", packet, true)) return dropped(way)
  return way.arrive("it reaches the host itself; whether a process listens there is not looked at")
}

function mappedTo(node: Node, { ip, port, protocol }: Destination) {
  const own = `${familyOf(ip) === AF_INET ? formatIp(ip) : `[${formatIp(ip)}]`}:${port}/${protocol}`
  const sought = node.rules.ports.filter(({ to }) => to.startsWith("[") === (familyOf(ip) !== AF_INET))
  const found =
    sought.find(({ hostPort }) => hostPort === own) ?? sought.find(({ hostPort }) => hostPort === `${port}/${protocol}`)
  if (!found) return undefined
  const at = found.to.lastIndexOf(":")
  const address = parseIp(found.to.slice(0, at).replace(/[[\]]/g, ""))
  return address && { ip: address, port: Number(found.to.slice(at + 1)), text: found.to, owner: found.owner }
}

function forward(way: Way, { node, attachments, filter }: Ground, packet: Packet): Hop[] {
  const isIpv4 = familyOf(packet.destination) === AF_INET
  const setting = isIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding"
  if (sysctl(setting) === "0") return way.end(`${setting} is 0: the host forwards nothing`)
  if (isIpv4 && sysctl(`net/ipv4/conf/${packet.input}/forwarding`) === "0")
    return way.end(`net/ipv4/conf/${packet.input}/forwarding is 0: the host forwards nothing from "${packet.input}"`)
  using host = RouteSocket.open()
  const route = routeTo(host, packet.destination)
  if (typeof route === "string") return way.end(`the host ${route}`)
  const output = nameOf(host, route.index) ?? "?"
  const gateway = route.gateway === undefined ? "" : ` to gateway ${formatIp(route.gateway)}`
  way.pass("host", `forwarded from "${packet.input}" to "${output}"${gateway}`)
  const leaving = { ...packet, output }
  if (filter && !passed(way, filter, "forward", leaving, false)) return dropped(way)
  const last = filter ? passHook(filter, "postrouting", leaving) : undefined
  if (last)
    for (const note of last.notes)
      way.pass(last.isMasqueraded ? "nat" : "filter", note, last.isUnclear ? "perhaps" : "yes")
  if (last?.verdict === "drop") return dropped(way)
  const text = formatIp(packet.destination)
  const other = attachments.find(({ addresses }) => addresses.some((address) => address.split("/")[0] === text))
  const lost = other && lostBridge(other, node)
  if (lost) return way.end(`${describeLostBridge(lost)}: ${describe(other)} is cut off`)
  if (other)
    return way.arrive(
      `it reaches ${describe(other)}, ${text}${packet.destinationPort > 0 ? ` port ${packet.destinationPort}` : ""}, by "${output}"`,
    )
  const isPrivate =
    !last?.isMasqueraded && attachments.some(({ addresses }) => addresses.some((each) => has(each, packet.source)))
  const warning = isPrivate
    ? `; nobody masquerades it: ${formatIp(packet.source)} has to be routed back to this host`
    : ""
  return way.arrive(
    `it leaves the host by "${output}"${gateway}${last?.isMasqueraded ? ", with an address of that interface" : ""}${warning}`,
  )
}

/** Whether the rules at a hook let it pass; says what they do. Rules that change addresses are told apart by the caller. */
function passed(way: Way, filter: FilterView, hook: string, packet: Packet, mayBeMapped: boolean): boolean {
  const { verdict, notes, isUnclear } = passHook(filter, hook, packet)
  // The map of published ports is read by itself.
  const told = mayBeMapped ? notes.filter((note) => !note.includes("cni_hostports")) : notes
  for (const note of told) way.pass("filter", note, verdict === "drop" ? "no" : isUnclear ? "perhaps" : "yes")
  if (told.length === 0 && verdict === "accept") way.pass("filter", `no rule at ${hook} stops it`)
  return verdict === "accept"
}

function dropped(way: Way): Hop[] {
  return way.end("dropped by the packet filter")
}
