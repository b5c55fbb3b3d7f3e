import { describeInterface, heedRouters, hostEnd, ignoreRouters } from "../../pkg/ip/mod.ts"
import { findLink, IFF_UP, type Ifindex, type Link, RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import type { Answered, Call } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Interface, type Owner, ownerComment, type Result } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import { ensureBridge, holdBridge } from "./bridge-link.ts"
import type { BridgeConfig } from "./config.ts"
import { preparePort } from "./port.ts"
import type { SpoofCheck } from "./spoof-check.ts"

/** What an earlier plugin of the chain has made for this attachment. */
export interface ChainedPort {
  prevResult: Result
  /** The container's interface. */
  link: Link
  /** The host's interface that belongs to it. */
  port: Link
}

/**
 * The host's interface of an earlier plugin of the chain, which joins the bridge instead of one of ours (CONVENTIONS,
 * "chaining"). Undefined when the container's interface is still to be made, or is on the bridge, as when an ADD is
 * repeated. Throws code 7 when none or several may be meant.
 */
export function findChainedPort(
  { host, inside, sandbox }: { host: RouteSocket; inside: RouteSocket; sandbox: Netns },
  call: Call,
  { bridge }: Pick<BridgeConfig, "bridge">,
): ChainedPort | undefined {
  const { prevResult } = call.network
  if (!prevResult?.interfaces.some(({ name, sandbox }) => name === call.ifName && sandbox)) return undefined
  const link = findLink(inside, call.ifName)
  if (!link) return undefined
  const candidates = portsOf({ host, sandbox }, prevResult.interfaces, link)
  const master = findLink(host, bridge)?.index ?? -1
  if (candidates.some(({ attributes }) => attributes.master === master)) return undefined
  const [port, ...others] = candidates
  if (port && others.length === 0) return { prevResult, link, port }
  throw new CniError(Code.InvalidNetworkConfig, `Cannot choose the interface of "${call.ifName}" to join the bridge`, {
    details: `prevResult has ${candidates.map(({ name }) => `"${name}"`).join(", ") || "no interface of the host"}`,
  })
}

/** The other end of the container's pair; else every interface that the result has on the host, but for bridges. */
export function portsOf(
  { host, sandbox }: { host: RouteSocket; sandbox: Netns },
  interfaces: readonly Interface[],
  link: Link,
): Link[] {
  const end = hostEnd(host, sandbox, link)
  if (end) return [end]
  return interfaces.flatMap(({ name, sandbox }) => {
    const found = sandbox ? undefined : findLink(host, name)
    return found && found.kind !== "bridge" ? [found] : []
  })
}

/**
 * Makes an earlier plugin's interface a port of the bridge, with all that is asked of a port, and answers the earlier
 * result with the bridge at its end. Addresses are the earlier plugin's business. Throws `CniError`.
 */
export function joinChainedPort(
  call: Call,
  config: BridgeConfig,
  { prevResult, link, port }: ChainedPort,
  {
    host,
    spoofCheck,
    owner,
    undo,
  }: { host: RouteSocket; spoofCheck: SpoofCheck | undefined; owner: Owner; undo: Undo },
): Answered {
  refuseAddressing(call, config)
  const bridge = ensureBridge(host, config, undo)
  using _held = holdBridge(bridge)
  const { master } = port.attributes
  if (master) {
    const other = findLink(host, master as Ifindex)?.name ?? `link number ${master}`
    throw new CniError(Code.Internal, `Cannot join "${port.name}" to bridge "${bridge.name}": it belongs to "${other}"`)
  }
  if (spoofCheck) {
    undo.step(
      "check source MACs",
      () => spoofCheck.add(owner, { port: port.name, mac: link.mac }),
      () => spoofCheck.remove(owner),
    )
  }
  undo.step(
    `ignore routers on "${port.name}"`,
    () => ignoreRouters(port.name),
    (before) => heedRouters(port.name, before),
  )
  // Down while it joins, so that nothing passes before it has its VLANs.
  const isUp = (port.flags & IFF_UP) !== 0
  undo.step(
    `take "${port.name}" down`,
    () => setLink(host, port, { up: false }),
    () => setLink(host, port, { up: isUp }),
  )
  undo.step(
    `join bridge "${bridge.name}"`,
    () => setLink(host, port, { master: bridge.index }),
    () => setLink(host, port, { master: 0 }),
  )
  preparePort(host, { bridge, port: port.name }, config)
  setLink(host, port, { up: true })
  const isThere = prevResult.interfaces.some(({ name, sandbox }) => name === bridge.name && !sandbox)
  const interfaces = isThere ? prevResult.interfaces : [...prevResult.interfaces, describeInterface(bridge)]
  return call.answer({ ...prevResult, interfaces, dns: config.dns ?? prevResult.dns }, undo)
}

/** Keys that are about addresses, which the container has already. */
function refuseAddressing(call: Call, { ipam, isGateway, ipMasq }: BridgeConfig): void {
  const key = ipam ? "ipam" : isGateway ? "isGateway" : ipMasq ? "ipMasq" : undefined
  if (key === undefined) return
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "${key}" with an interface of an earlier plugin`, {
    details: `"${call.ifName}" has its addresses from the plugin that made it: configure them there`,
  })
}

/**
 * Takes what an earlier plugin has made out of the bridge, for as long as it is there. A result that begins with the bridge
 * is one of an interface that we have made. Throws `NetlinkError`.
 */
export function leaveBridge(
  prevResult: Result | undefined,
  { bridge }: Pick<BridgeConfig, "bridge">,
  owner: Owner,
): void {
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
