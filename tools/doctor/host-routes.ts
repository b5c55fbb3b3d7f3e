import { type ListedRoute, NeighbourState, RTN_LOCAL, RTN_UNICAST } from "../../pkg/netlink/mod.ts"
import {
  AF_INET6,
  contains,
  familyOf,
  formatCidr,
  formatIp,
  networkOf,
  parseCidr,
  sameBytes,
} from "../../pkg/types/mod.ts"
import { lostBridge, type NodeLink } from "../node/mod.ts"
import { isGateway } from "./bridges.ts"
import { affectedBy, type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import type { Address, Examined } from "./inside.ts"
import { type Command, ofOthers, sh } from "./remedy.ts"

/** Finds container addresses that the host also has, or that it does not route to the container. */
export const checkHostRoutes: Check = (input) =>
  input.examined.flatMap((examined) => {
    const out = linkTowards(examined, input)
    const addresses = examined.interfaces.flatMap((one) => (one.link?.kind === "veth" ? one.addresses : []))
    return addresses.flatMap((address) => (out ? hostFault(examined, address, out, input) : []))
  })

/**
 * Returns the host's link that routes packets to a container: the bridge with the container's gateway, a VLAN on it, or
 * the host end of a ptp pair. Returns undefined if the host does not route.
 */
export function linkTowards(examined: Examined, { node }: DoctorInput): NodeLink | undefined {
  const { one, plugins } = examined
  const end = one.link
  if (end === undefined || end.nsid !== undefined || !end.isUp || lostBridge(one, node)) return undefined
  if (plugins.some(({ type }) => type === "ptp")) return end
  const isRouted = plugins.some(({ type, raw }) => isGateway({ type, raw, network: one.network }))
  const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
  const isInVrf = bridge?.master !== undefined
  if (!isRouted || bridge === undefined || isInVrf || !bridge.isUp) return undefined
  const gateways = one.result?.ips.flatMap(({ gateway }) => gateway ?? []) ?? []
  const has = ({ addresses }: NodeLink) => addresses.some((each) => gateways.includes(each.split("/")[0] ?? ""))
  const isOnBridge = ({ peer, peerNsid, kind }: NodeLink) =>
    kind === "vlan" && peerNsid === undefined && peer === bridge.index
  return has(bridge) ? bridge : node.links.find((link) => link.nsid === undefined && isOnBridge(link) && has(link))
}

function hostFault({ one }: Examined, address: Address, out: NodeLink, input: DoctorInput): Finding[] {
  const { hostTables, node } = input
  const ip = formatIp(address.ip)
  const answer = hostTables.routesTo.get(ip)
  if (answer === undefined) return []
  const about = { network: one.network, severity: "error", affected: [affectedBy(one)] } as const
  if (typeof answer === "object" && answer.type === RTN_LOCAL) {
    const holder = node.links.find(
      (link) => link.nsid === undefined && link.addresses.some((each) => each.split("/")[0] === ip),
    )
    return [
      {
        ...about,
        rule: "host-has-address",
        what: `the host also has ${ip}, the address of ${nameOf(one)}${holder ? `, on "${holder.name}"` : ""}`,
        why: "the host receives the container's packets itself",
        remedy: ofOthers(
          "remove the address from the host, or give the container another one",
          sh`ip address show to ${ip}`,
        ),
      },
    ]
  }
  if (typeof answer === "object" && answer.type === RTN_UNICAST && answer.index === out.index) return []
  if (typeof answer === "object" && hostTables.rules.some(({ table }) => table === answer.table)) return [] // the finding host-rule reports it
  const isV6 = familyOf(address.ip) === AF_INET6
  const closed = node.routes.find(({ dst, dev, gateway }) => {
    const cidr = parseCidr(dst)
    return dev === undefined && gateway === undefined && cidr && contains(cidr, address.ip)
  })
  const isShared = out.kind === "bridge" || out.kind === "vlan"
  const to = isShared ? formatCidr({ ip: networkOf(address), prefix: address.prefix }) : ip
  const why = "packets that the host sends or forwards do not reach the container"
  if (typeof answer === "string" && closed !== undefined)
    return [
      {
        ...about,
        rule: "host-route-closed",
        cause: `route ${closed.dst}`,
        what: `the host drops its packets to ${ip} of ${nameOf(one)}: its route to ${closed.dst} drops packets`,
        ofMany: (count) =>
          `the host drops its packets to ${count} containers: its route to ${closed.dst} drops packets`,
        why,
        remedy: ofOthers("exclude the container from the route", sh`ip route show ${closed.dst}`),
      },
    ]
  return [
    {
      ...about,
      rule: "host-route-missing",
      cause: `route ${to} by ${out.name}`,
      what: `the host has no route to ${to} by "${out.name}", the interface of ${nameOf(one)}${instead(answer, input)}`,
      ofMany: (count) => `the host has no route to ${to} by "${out.name}", the interface of ${count} containers`,
      why,
      remedy: isShared ? connectedRoute(address, to, out) : pointRoute(ip, isV6, out),
      consequenceOf: ["route-overlap", "gateway-missing", "link-down", "host-main-table"],
    },
  ]
}

function instead(answer: ListedRoute | string, { node }: DoctorInput): string {
  if (typeof answer === "string") return ""
  const dev = node.links.find(({ index, nsid }) => nsid === undefined && index === answer.index)?.name
  return dev === undefined ? "" : `: its route is by "${dev}"`
}

/** Returns the command that restores the subnet route of a gateway address, as the kernel creates it. */
function connectedRoute({ ip, gateway }: Address, to: string, { name }: NodeLink): Command {
  if (familyOf(ip) === AF_INET6) return sh`ip -6 route replace ${to} dev ${name} proto kernel metric 256`
  const source = gateway ? ["src", formatIp(gateway)] : []
  return sh`ip route replace ${to} dev ${name} proto kernel scope link ${source}`
}

/** Returns the command that restores the route to a container that ptp creates. */
function pointRoute(ip: string, isV6: boolean, { name }: NodeLink): Command {
  return isV6 ? sh`ip -6 route replace ${ip} dev ${name}` : sh`ip route replace ${ip} dev ${name} scope host`
}

/** Finds permanent neighbor entries on the host that have another MAC than the container with that address. */
export const checkHostNeighbours: Check = ({ hostTables, examined, node }) =>
  hostTables.neighbours.flatMap((neighbour): Finding[] => {
    if (!(neighbour.state & NeighbourState.Permanent)) return []
    const held = examined.flatMap(({ one, inside, interfaces }) =>
      interfaces.flatMap(({ link }) => {
        const has = inside.addresses?.some(({ index, ip }) => index === link?.index && sameBytes(ip, neighbour.ip))
        return link && has ? [{ one, mac: link.mac }] : []
      }),
    )
    const dev = node.links.find(({ index, nsid }) => nsid === undefined && index === neighbour.index)?.name
    const [first] = held
    if (first === undefined || dev === undefined || held.some(({ mac }) => mac === neighbour.mac)) return []
    const ip = formatIp(neighbour.ip)
    return [
      {
        rule: "neighbour-wrong",
        severity: "error",
        network: first.one.network,
        affected: [affectedBy(first.one)],
        what: `the host has a static neighbor ${ip} on "${dev}" with MAC ${neighbour.mac}, but ${nameOf(first.one)} has ${first.mac}`,
        why: "packets that the host sends or forwards to the container do not reach it",
        remedy: ofOthers(
          "delete the entry, or give it the MAC of the container",
          sh`ip neighbour show ${ip} dev ${dev}`,
        ),
      },
    ]
  })
