import { createVethPair } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import { deleteLink, findLink, getLink, type Link, type RouteSocket, setBridgePort } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import { ensureBridge, holdBridge } from "./bridge-link.ts"
import type { BridgeConfig } from "./config.ts"
import { setPortVlans } from "./vlan-filtering.ts"
import { planPort } from "./vlans.ts"

/** The number of times that a bridge may be deleted during the call: each time another first ADD has failed and taken its bridge back. */
const ATTEMPTS = 10

/** A bridge, and the name of a port of it. */
export interface BridgePort {
  bridge: Link
  port: string
}

/**
 * Makes the container's pair, both ends down, with the host's end as a port of the bridge, which is made if need be; `seen` is the
 * bridge where the caller has seen it. Throws `CniError`.
 */
export function joinBridge(
  host: RouteSocket,
  config: BridgeConfig,
  { sandbox, ifName, alias, seen }: { sandbox: Netns; ifName: string; alias: string; seen?: Link | undefined },
  undo: Undo,
): BridgePort {
  const pair = { sandbox, ifName, alias, mtu: config.mtu, mac: config.mac }
  for (let attempt = 1; ; attempt++) {
    let bridge: Link | undefined
    try {
      bridge = ensureBridge(host, config, undo, attempt === 1 ? seen : undefined)
      using _held = holdBridge(bridge)
      const master = bridge.index
      const port = createVethPair(host, { ...pair, master })
      undo.defer("create the veth pair", () => deleteLink(host, getLink(host, port)))
      return { bridge, port }
    } catch (error) {
      const hasVanished = bridge ? !findLink(host, bridge.index) : isErrno(error, "ENODEV")
      if (!hasVanished) throw error
      if (attempt < ATTEMPTS) continue
      const reason = `it was removed ${ATTEMPTS} times in between`
      throw new CniError(Code.TryAgainLater, `Cannot join bridge "${config.bridge}": ${reason}`, { cause: error })
    }
  }
}

/**
 * Gives a new port its VLANs, and isolates it or lets it send frames back, where that is asked for. To be called before it
 * is up, and so before anything can pass it. Throws `CniError`.
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
