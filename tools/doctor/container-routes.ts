import { NeighbourState, RT_TABLE_MAIN, RTN_UNICAST, RTPROT_KERNEL } from "../../pkg/netlink/mod.ts"
import { AF_INET6, familyOf, formatCidr, formatIp, parseIp, sameBytes } from "../../pkg/types/mod.ts"
import { CLOSED, takesFrames } from "../node/mod.ts"
import { about } from "./containers.ts"
import { affectedBy, type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import {
  type Address,
  type Examined,
  type ExaminedInterface,
  hasAddress,
  inContainer,
  isSameDestination,
  isUp,
  missingRoutes,
  repairCommands,
  routeCommand,
  type WantedRoute,
} from "./inside.ts"
import { ofOthers, sh } from "./remedy.ts"

/**
 * Finds addresses, routes and neighbor entries of containers that differ from ADD's result. Reports only the addresses
 * if some are missing, because routes follow from them.
 */
export const checkContainerRoutes: Check = (input) =>
  input.examined.flatMap((examined) => {
    const { interfaces } = examined
    if (interfaces.some(({ link, addresses }) => link === undefined || (!isUp(link) && addresses.length > 0))) return []
    if (interfaces.some((one) => isTakenOver(examined, one))) return []
    const lost = interfaces.flatMap((one) => lostAddresses(examined, one, input))
    if (lost.length > 0) return lost
    return [...lostRoutes(examined), ...closedRoutes(examined), ...wrongNeighbours(examined, input)]
  })

/**
 * Reports whether gVisor owns the interface. gVisor removes the container's addresses and routes from the kernel, and
 * reads all frames through a packet socket.
 */
function isTakenOver({ inside }: Examined, { link, addresses }: ExaminedInterface): boolean {
  const isBare = addresses.length > 0 && !addresses.some((address) => hasAddress(inside, link, address))
  return isBare && link !== undefined && takesFrames(inside.path, link.index)
}

function lostAddresses(examined: Examined, one: ExaminedInterface, input: DoctorInput): Finding[] {
  const { inside, plugins } = examined
  const { link, addresses, name } = one
  const missing = addresses.filter((address) => !hasAddress(inside, link, address))
  const isLeased = plugins.some(({ raw }) => JSON.stringify(raw.ipam ?? {}).includes('"dhcp"'))
  const hasOther = inside.addresses?.some(({ index, scope }) => index === link?.index && scope === 0)
  if (link === undefined || missing.length === 0 || (isLeased && hasOther)) return []
  const { common, what, ofMany } = about(examined, one)
  const holder = holderOf(missing, examined, input)
  return [
    {
      ...common,
      rule: "container-address-missing",
      severity: "error",
      what: `${what} does not have ${missing.map(({ text }) => text).join(" and ")}, which ADD assigned`,
      ofMany: ofMany("does not have the address that ADD assigned"),
      why: `packets for ${formatIp(missing[0]?.ip ?? new Uint8Array(4))} are not answered, and "${name}" has lost the routes of the address`,
      remedy: holder
        ? `delete one of the two containers: ${nameOf(holder.one)} now has the address`
        : inContainer(inside, repairCommands(examined, one)),
    },
  ]
}

function holderOf(
  addresses: readonly Address[],
  { one, inside }: Examined,
  { examined }: DoctorInput,
): Examined | undefined {
  return examined.find(
    (other) =>
      other.inside.inode !== inside.inode &&
      other.one.network === one.network &&
      other.inside.addresses?.some(({ ip }) => addresses.some((address) => sameBytes(ip, address.ip))),
  )
}

function lostRoutes(examined: Examined): Finding[] {
  const missing = missingRoutes(examined)
  const [first] = missing
  const one = first && interfaceOf(first, examined)
  if (first === undefined || one === undefined) return []
  const { common, what } = about(examined, one)
  const remedy = inContainer(
    examined.inside,
    missing.map((route) => routeCommand(route, interfaceOf(route, examined)?.name ?? one.name)),
  )
  const names = missing.map((route) => describeRoute(route)).join(" and ")
  if (missing.every(({ origin }) => origin !== "result"))
    return [
      {
        ...common,
        rule: "container-network-route",
        severity: "error",
        what: `${what} has no route to its own network: ${names} ${missing.length === 1 ? "does" : "do"} not exist`,
        ofMany: (count) => `"${one.name}" has no route to its own network in ${count} containers`,
        why: "the container cannot reach its gateway and its neighbors, or reaches them by a detour",
        remedy,
      },
    ]
  const isDefault = missing.some(({ prefix }) => prefix === 0)
  return [
    {
      ...common,
      rule: "container-route-missing",
      severity: "error",
      what: `${what} does not have ${names}${instead(first, examined)}`,
      ofMany: (count) =>
        `${count} containers do not have ${isDefault ? "the default route" : "a route"} that ADD added`,
      why: isDefault
        ? "the container cannot reach other networks"
        : "the container cannot reach the route's destination",
      remedy,
    },
  ]
}

/** Finds a route of the main table that drops packets, except the default route and the kernel's own routes. */
function closedRoutes({ one, inside }: Examined): Finding[] {
  const closed = (inside.routes ?? []).filter(
    ({ type, table, protocol, prefix }) =>
      CLOSED.has(type) && table === RT_TABLE_MAIN && protocol !== RTPROT_KERNEL && prefix > 0,
  )
  return closed.slice(0, 1).map((route): Finding => {
    const to = formatCidr({ ip: route.dst, prefix: route.prefix })
    const type = CLOSED.get(route.type) ?? ""
    return {
      rule: "container-route-closed",
      severity: "warning",
      network: one.network,
      cause: `${type} ${to}`,
      affected: [affectedBy(one)],
      what: `${nameOf(one)} has a route of type ${type} to ${to}`,
      ofMany: (count) => `${count} containers have a route of type ${type} to ${to}`,
      why: "packets from them to that destination are dropped",
      remedy: ofOthers("it may be intended", inContainer(inside, [sh`ip route show ${to}`])),
    }
  })
}

/** Returns the interface for a route: the one with its gateway, or else the first with an address of its family. */
function interfaceOf({ dst, gateway }: WantedRoute, { interfaces }: Examined): ExaminedInterface | undefined {
  const ofFamily = interfaces.filter(({ addresses }) => addresses.some(({ ip }) => familyOf(ip) === familyOf(dst)))
  const withGateway = ofFamily.find(({ addresses }) =>
    addresses.some((one) => gateway && one.gateway && sameBytes(one.gateway, gateway)),
  )
  return withGateway ?? ofFamily[0]
}

function describeRoute({ dst, prefix, gateway }: WantedRoute): string {
  const to =
    prefix === 0
      ? `${familyOf(dst) === AF_INET6 ? "the IPv6 " : "the "}default route`
      : `the route to ${formatCidr({ ip: dst, prefix })}`
  return gateway ? `${to} via ${formatIp(gateway)}` : to
}

/** Describes existing routes to the destination of a missing route. */
function instead(wanted: WantedRoute, { inside }: Examined): string {
  const others = inside.routes?.filter((route) => isSameDestination(route, wanted)) ?? []
  const closed = inside.routes?.some(
    ({ type, dst, prefix }) => type !== RTN_UNICAST && prefix === wanted.prefix && sameBytes(dst, wanted.dst),
  )
  const via = others.map(({ gateway }) => (gateway ? `via ${formatIp(gateway)}` : "without a gateway"))
  if (via.length > 0) return `: the route is ${via.join(", ")} instead`
  return closed ? ": a route that drops packets took its place" : ""
}

/** Finds permanent neighbor entries with a wrong MAC, and gateways that do not answer. */
function wrongNeighbours(examined: Examined, input: DoctorInput): Finding[] {
  const { inside, interfaces } = examined
  return (inside.neighbours ?? []).flatMap((neighbour): Finding[] => {
    const one = interfaces.find(({ link }) => link?.index === neighbour.index)
    const isGateway = gatewaysOf(examined).some((gateway) => sameBytes(gateway, neighbour.ip))
    if (one === undefined) return []
    const { common, what, ofMany } = about(examined, one)
    const ip = formatIp(neighbour.ip)
    if (neighbour.state & NeighbourState.Permanent) {
      const real = macsOf(neighbour.ip, input)
      if (real.length === 0 || real.includes(neighbour.mac)) return []
      return [
        {
          ...common,
          rule: "neighbour-wrong",
          severity: "error",
          what: `${what} has a static neighbor ${ip} with MAC ${neighbour.mac || "none"}, but the MAC of ${ip} is ${real.join(" or ")}`,
          ofMany: ofMany(`has a static neighbor ${ip} with a wrong MAC`),
          why: isGateway ? "the container cannot reach other networks" : "the container cannot reach that address",
          remedy: ofOthers(
            "delete the entry, or give it that MAC",
            inContainer(inside, [sh`ip neighbour show ${ip} dev ${one.name}`]),
          ),
        },
      ]
    }
    if (!isGateway || !(neighbour.state & NeighbourState.Failed)) return []
    return [
      {
        ...common,
        rule: "gateway-silent",
        severity: "warning",
        what: `the gateway ${ip} did not answer the last request of ${what} for its MAC`,
        ofMany: (count) => `the gateway ${ip} did not answer the last requests of ${count} containers for its MAC`,
        why: "the container cannot reach other networks until the gateway answers",
        remedy: inContainer(inside, [sh`ip neighbour delete ${ip} dev ${one.name}`]),
        consequenceOf: [
          "gateway-missing",
          "link-down",
          "not-in-bridge",
          "bridge-missing",
          "port-state",
          "frames-dropped",
          "netdev-drop",
          "xdp-program",
          "tc-filter",
          "queue-drops",
          "port-setting",
          "container-arp-off",
        ],
      },
    ]
  })
}

function gatewaysOf({ one }: Examined): Uint8Array[] {
  const { ips = [], routes = [] } = one.result ?? {}
  return [...ips.map(({ gateway }) => gateway), ...routes.map(({ gw }) => gw)].flatMap((text) =>
    text ? (parseIp(text) ?? []) : [],
  )
}

/** Returns the MACs of all links that have an address, on the host and in containers. */
export function macsOf(ip: Uint8Array, { node, examined }: DoctorInput): string[] {
  const text = formatIp(ip)
  const onHost = node.links.filter(
    ({ nsid, addresses }) => nsid === undefined && addresses.some((each) => each.split("/")[0] === text),
  )
  const inside = examined.flatMap(({ inside, interfaces }) =>
    interfaces.flatMap(({ link }) =>
      link && inside.addresses?.some((each) => each.index === link.index && sameBytes(each.ip, ip)) ? [link.mac] : [],
    ),
  )
  return [...new Set([...onHost.map(({ mac }) => mac), ...inside])]
}
