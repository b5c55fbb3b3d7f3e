import { addPortVlans, deletePortVlans, type Link, linkData, type NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"
import { planDefault, planPort, type VlanConfig } from "./vlans.ts"

/** Returns the error for a kernel without VLAN filtering. `cause` is missing if the kernel ignored the request. */
export function noVlanFiltering(bridge: string, cause?: unknown): CniError {
  const options = cause === undefined ? {} : { cause }
  const reason = "the kernel is built without CONFIG_BRIDGE_VLAN_FILTERING"
  return new CniError(Code.Internal, `Cannot use VLANs on bridge "${bridge}": ${reason}`, options)
}

/** Throws `CniError` if a bridge has no `vlan_filtering`. The message contains the command that enables it. */
export function requireVlanFiltering(bridge: Link): void {
  const { vlanFiltering, vlanDefaultPvid } = linkData(bridge, "bridge") ?? {}
  if (vlanFiltering === 1) return
  if (vlanDefaultPvid === undefined) throw noVlanFiltering(bridge.name) // kernels with the feature always report this
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Cannot use VLANs on bridge "${bridge.name}": its VLAN filtering is off`,
    { details: `enable it with "ip link set ${bridge.name} type bridge vlan_filtering 1", or use another bridge` },
  )
}

/**
 * Adds a new port to its VLANs, and removes it from the bridge's default VLAN unless the configuration keeps the port
 * there. Call this before the port is up. Throws `CniError`.
 */
export function setPortVlans(host: NetlinkSocket, bridge: Link, port: Link, vlans: VlanConfig): void {
  const plan = planPort(vlans)
  orCannot(`Cannot set the VLANs of port "${port.name}" of bridge "${bridge.name}"`, () => {
    deletePortVlans(host, port, planDefault(vlans, plan, defaultVlanOf(bridge)))
    addPortVlans(host, port, plan)
  })
}

/** Returns the default VLAN of a bridge's new ports (`vlan_default_pvid`); 0 for no VLAN. */
export function defaultVlanOf(bridge: Link): number {
  return linkData(bridge, "bridge")?.vlanDefaultPvid ?? 0
}
