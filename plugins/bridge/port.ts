import { createVethPair } from "../../pkg/ip/mod.ts"
import { deleteLink, getLink, type Link, type RouteSocket, setBridgePort } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import { ensureBridge } from "./bridge-link.ts"
import type { BridgeConfig } from "./config.ts"
import { setPortVlans } from "./vlan-filtering.ts"
import { planPort } from "./vlans.ts"

export interface BridgePort {
  bridge: Link
  port: string
}

/**
 * Creates the container's veth pair, with both ends down and the host's end as a port of the bridge, and the bridge if
 * it does not exist. `seen` is the bridge that the caller found, if any. Throws `CniError`.
 */
export function joinBridge(
  host: RouteSocket,
  config: BridgeConfig,
  { sandbox, ifName, alias, seen }: { sandbox: Netns; ifName: string; alias: string; seen?: Link | undefined },
  undo: Undo,
): BridgePort {
  const bridge = ensureBridge(host, config, seen)
  const { mtu, mac } = config
  const port = createVethPair(host, { sandbox, ifName, alias, mtu, mac, master: bridge.index })
  undo.defer("create the veth pair", () => deleteLink(host, getLink(host, port)))
  return { bridge, port }
}

/**
 * Sets the configured VLANs, isolation and hairpin mode of a new port. Call this before the port is up, so that no
 * frame passes without these settings. Throws `CniError`.
 */
export function preparePort(host: RouteSocket, { bridge, port }: BridgePort, config: BridgeConfig): void {
  const { hairpinMode, portIsolation, vlans } = config
  if (!hairpinMode && !portIsolation && planPort(vlans).length === 0) return
  const link = getLink(host, port)
  if (hairpinMode || portIsolation) {
    setBridgePort(host, link, { ...(hairpinMode ? { hairpin: 1 } : {}), ...(portIsolation ? { isolated: 1 } : {}) })
  }
  setPortVlans(host, bridge, link, vlans)
}
