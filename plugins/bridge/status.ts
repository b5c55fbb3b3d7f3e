import { Masquerade, requireForwarding, requireMtu } from "../../pkg/ip/mod.ts"
import { expectedIps, ipam } from "../../pkg/ipam/mod.ts"
import { findLink, RouteSocket } from "../../pkg/netlink/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { type Call, requireForAdd, requireOneForAdd } from "../../pkg/skel/mod.ts"
import { requireBridge, requireRoomFor } from "./bridge-link.ts"
import type { BridgeConfig } from "./config.ts"
import { completeResult, gatewaysOf } from "./gateway.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { requireVlanGateway } from "./vlan-gateway.ts"

/** Throws code 50 with the reason when ADD must fail, whatever container it is for, and the IPAM plugin's error. */
export function requireServable(call: Call, config: BridgeConfig): void {
  const masquerades = config.ipMasq && config.ipam !== undefined
  using filter = masquerades || config.checkSpoofing ? PacketFilter.find() : undefined
  if (masquerades) new Masquerade(filter).requireUsable(config.ipMasqBackend)
  if (config.checkSpoofing) new SpoofCheck(filter).requireUsable()
  using host = RouteSocket.open()
  requireForAdd(() => requireLinks(host, config))
  if (config.ipam) {
    const link = findLink(host, config.vlanGateway ?? config.bridge)
    for (const set of expectedIps(call.raw)) {
      requireOneForAdd(set, (ip) => {
        const result = completeResult({ interfaces: [], ips: [ip], routes: [], dns: {} }, config)
        requireMtu(config.mtu, result)
        for (const gateway of config.isGateway ? gatewaysOf(result) : []) {
          if (link) requireRoomFor(host, link, gateway, config.forceAddress)
          requireForwarding(gateway.ip.length)
        }
      })
    }
  }
  ipam.status(call)
}

/** The bridge and the VLAN's gateway, as far as they are there, have to be what ADD can use. */
function requireLinks(host: RouteSocket, config: BridgeConfig): void {
  const bridge = findLink(host, config.bridge)
  if (!bridge) return
  requireBridge(bridge, config)
  if (config.vlanGateway) requireVlanGateway(host, { name: config.vlanGateway, bridge, vlans: config.vlans })
}
