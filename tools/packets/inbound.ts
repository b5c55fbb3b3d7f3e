import { IFF_UP } from "../../pkg/netlink/mod.ts"
import { formatIp } from "../../pkg/types/mod.ts"
import { describeRefusal, isOfLink } from "./facts.ts"
import { formatPlace } from "./filter.ts"
import { whyReverseFiltered } from "./forwarding.ts"
import { throughHost } from "./host.ts"
import { RTN } from "./kernel.ts"
import { type Destination, firstPacket } from "./packet.ts"
import type { Hop, Walk } from "./packet-path.ts"
import type { NodeState, Trip } from "./trip.ts"
import { walkEach } from "./walk.ts"

/** A connection from another host. */
export interface Inbound {
  readonly source: Uint8Array
  /** The destination. Its default address is the host's address on its route to the source. */
  readonly destination: Omit<Destination, "ip"> & { readonly ip?: Uint8Array }
  /** The input interface. The default is the interface of the host's route to the source. */
  readonly input?: string | undefined
}

/** Evaluates another host's first packet to this host or a published port, and the answer. Changes nothing. */
export function walkInbound(state: NodeState, inbound: Inbound): Walk {
  return walkEach(state, (trip) => fromOutside(trip, inbound))
}

function fromOutside(trip: Trip, { source, destination, input }: Inbound): Hop[] {
  const { way, kernel } = trip
  const from = formatIp(source)
  if (kernel.addressType(source) !== RTN.unicast)
    return way.end(`${from} is an address of the host itself: the kernel drops packets from outside with this source`)
  const back = kernel.routeOf({ dst: source })
  if (typeof back === "string" && input === undefined)
    return way.end(
      `the host ${describeRefusal(back, source)}: no answer leaves, and the receiving interface is unknown`,
    )
  const towards = typeof back === "string" || back.index === undefined ? undefined : kernel.link(back.index)
  const link = input === undefined ? towards : kernel.link(input)
  if (!link) return way.end(`the host has no interface ${JSON.stringify(input)}`)
  const own = typeof back !== "string" && input === undefined ? back.preferredSource : undefined
  const ip = destination.ip ?? own ?? kernel.addressOn(link.name, source)
  if (!ip) return way.end(`"${link.name}" has no address of the family of ${from}`)
  way.pass("host", `from ${from} to ${formatPlace(ip, destination.port)}, received by "${link.name}"`)
  if ((link.flags & IFF_UP) === 0) return way.end(`"${link.name}" is down`)
  if (input === undefined) tellOtherWay(trip, { source, ip, towards: link.name })
  const packet = firstPacket(source, { ...destination, ip }, link.name)
  return throughHost(trip, packet)
}

/** Reports a drop by rp_filter if the packet arrives on another interface: the one that has the destination address. */
function tellOtherWay(
  { way, node, kernel }: Trip,
  { source, ip, towards }: { source: Uint8Array; ip: Uint8Array; towards: string },
): void {
  const holder = node.links.find((link) => link.nsid === undefined && isOfLink(link, ip))
  if (!holder || holder.name === towards || holder.name === "lo") return
  const filtered = whyReverseFiltered(kernel.routeOf({ dst: source }), source, holder.name, kernel)
  if (filtered === undefined) return
  way.pass(
    "host",
    `${formatIp(ip)} is the address of "${holder.name}"; if the packet arrives there: ${filtered}`,
    "perhaps",
  )
}
