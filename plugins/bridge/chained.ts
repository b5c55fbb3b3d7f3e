import { type Attaching, describeInterface, findHostEnd, type Sides } from "../../pkg/attachment/mod.ts"
import { refuseRouterAdvertisements, restoreAcceptRa } from "../../pkg/ip/mod.ts"
import { findLink, IFF_UP, type Ifindex, type Link, RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Interface, type Owner, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { ensureBridge } from "./bridge-link.ts"
import type { BridgeConfig } from "./config.ts"
import { preparePort } from "./port.ts"
import { SpoofCheck } from "./spoof-check.ts"

/** The interface that an earlier plugin of the chain created for this attachment. */
interface EarlierInterface {
  prevResult: Result
  link: Link
  port: Link
}

/**
 * Makes the host's interface of an earlier plugin of the chain a port of the bridge, with all configured port settings,
 * instead of creating a veth pair. The earlier plugin assigns addresses. Returns the earlier result with the bridge
 * appended (CONVENTIONS, "chaining"). Returns undefined if the container's interface does not exist yet, or if the
 * host's is already on the bridge, as in a repeated ADD. Throws code 7 if none or several of the host's interfaces
 * match.
 */
export function joinEarlierInterface(attaching: Attaching, config: BridgeConfig): Result | undefined {
  const earlier = findEarlierInterface(attaching, config)
  if (!earlier) return undefined
  const { prevResult, link, port } = earlier
  const { call, owner, host, filter, undo } = attaching
  refuseAddressing(call, config)
  const bridge = ensureBridge(host, config)
  const { master } = port.attributes
  if (master) {
    const other = findLink(host, master as Ifindex)?.name ?? `link number ${master}`
    throw new CniError(Code.Internal, `Cannot join "${port.name}" to bridge "${bridge.name}": it belongs to "${other}"`)
  }
  if (config.macspoofchk) {
    new SpoofCheck(filter).add({ owner, port: port.name, mac: link.mac }, undefined, undo, call.log)
  }
  const accepted = refuseRouterAdvertisements(port.name)
  undo.defer(`ignore routers on "${port.name}"`, () => restoreAcceptRa(port.name, accepted))
  // The port is down while it joins, so that no frame passes before its VLANs are set.
  const isUp = (port.flags & IFF_UP) !== 0
  setLink(host, port, { up: false })
  undo.defer(`take "${port.name}" down`, () => setLink(host, port, { up: isUp }))
  setLink(host, port, { master: bridge.index })
  undo.defer(`join bridge "${bridge.name}"`, () => setLink(host, port, { master: 0 }))
  preparePort(host, { bridge, port: port.name }, config)
  setLink(host, port, { up: true })
  const isThere = prevResult.interfaces.some(({ name, sandbox }) => name === bridge.name && !sandbox)
  const interfaces = isThere ? prevResult.interfaces : [...prevResult.interfaces, describeInterface(bridge)]
  return { ...prevResult, interfaces, dns: config.dns ?? prevResult.dns }
}

function findEarlierInterface(sides: Sides, { bridge }: BridgeConfig): EarlierInterface | undefined {
  const { call, host, inside } = sides
  const { prevResult } = call.network
  if (!prevResult?.interfaces.some(({ name, sandbox }) => name === call.ifName && sandbox)) return undefined
  const link = findLink(inside, call.ifName)
  if (!link) return undefined
  const candidates = portsOf(sides, prevResult.interfaces, link)
  const master = findLink(host, bridge)?.index ?? -1
  if (candidates.some(({ attributes }) => attributes.master === master)) return undefined
  const [port, ...others] = candidates
  if (port && others.length === 0) return { prevResult, link, port }
  throw new CniError(Code.InvalidNetworkConfig, `Cannot choose the interface of "${call.ifName}" to join the bridge`, {
    details: `prevResult has ${candidates.map(({ name }) => `"${name}"`).join(", ") || "no interface of the host"}`,
  })
}

/** Returns the host's end of the container's interface, or else the result's host interfaces except bridges. */
export function portsOf(
  { host, sandbox }: Pick<Sides, "host" | "sandbox">,
  interfaces: readonly Interface[],
  link: Link,
): Link[] {
  const end = findHostEnd(host, sandbox, link)
  if (end) return [end]
  return interfaces.flatMap(({ name, sandbox }) => {
    const found = sandbox ? undefined : findLink(host, name)
    return found && found.kind !== "bridge" ? [found] : []
  })
}

/** Throws code 7 for keys about addresses, because the container already has addresses. */
function refuseAddressing(call: Call, { ipam, isGateway, ipMasq }: BridgeConfig): void {
  const key = ipam ? "ipam" : isGateway ? "isGateway" : ipMasq ? "ipMasq" : undefined
  if (key === undefined) return
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "${key}" with an interface of an earlier plugin`, {
    details: `the plugin that created "${call.ifName}" assigned its addresses: configure them there`,
  })
}

/**
 * Removes the host's interface of an earlier plugin from the bridge if it still exists. Does nothing if the result
 * begins with the bridge, because this plugin then created the interface. Throws `NetlinkError`.
 */
export function leaveBridge({ network }: Call, { bridge }: BridgeConfig, owner: Owner): void {
  const { prevResult } = network
  if (!prevResult || prevResult.interfaces[0]?.name === bridge) return
  using host = RouteSocket.open()
  const master = findLink(host, bridge)
  if (!master) return
  for (const { name, sandbox } of prevResult.interfaces) {
    const link = sandbox ? undefined : findLink(host, name)
    const isOthers = Boolean(link?.attributes.alias) && link?.attributes.alias !== ownerComment(owner)
    if (link?.attributes.master === master.index && !isOthers) setLink(host, link, { master: 0 })
  }
}
