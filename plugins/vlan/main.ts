import {
  type Attaching,
  addInterface,
  type Checking,
  checkMaster,
  checkSetting,
  configureInterface,
  defineInterfacePlugin,
  findMasterForStatus,
  type Lease,
  requireMaster,
  requireMtuOfParent,
} from "../../pkg/attachment/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import { IFF_UP, type Link, linkData, type RouteSocket, vlanProtocols } from "../../pkg/netlink/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Interface, isCniError } from "../../pkg/types/mod.ts"
import { parseVlanConfig, type VlanConfig, vlanFields } from "./config.ts"
import { findVlanTaken, requireFreeVlan } from "./holder.ts"

export { vlanKeyDocs } from "./config.ts"

/** Gives a container an interface in a VLAN of an interface of the host. */
export const vlan = defineInterfacePlugin<VlanConfig, Link>({
  name: "vlan",
  kind: "vlan",
  fields: vlanFields,
  config: parseVlanConfig,
  prepare: createVlan,
  attach: attachVlan,
  check: checkVlan,
  requireUsable: requireVlan,
})

/**
 * Creates the interface on its master. ADD does this before it leases an address, because only the kernel can detect
 * that the VLAN is in use. Throws `CniError`.
 */
export function createVlan(attaching: Attaching, config: VlanConfig): Link {
  const parent = requireMaster(attaching, config)
  requireFit(parent, config)
  return addVlan(attaching, parent, config)
}

/** Configures the interface that `createVlan` has created. Throws `CniError`. */
export function attachVlan(attaching: Attaching, lease: Lease, config: VlanConfig, link: Link): Interface[] {
  return configureInterface(attaching, link, lease, config)
}

function addVlan(attaching: Attaching, parent: Link, config: VlanConfig): Link {
  const { vlanId, protocol, mtu, linkInContainer } = config
  const data = { id: vlanId, protocol: vlanProtocols[protocol] }
  try {
    return addInterface(attaching, { kind: "vlan", parent, parentInside: linkInContainer, mtu, mac: undefined, data })
  } catch (error) {
    const isTaken = isCniError(error) && isErrno(error.cause, "EEXIST")
    throw (isTaken && findVlanTaken(attaching, parent, config)) || error
  }
}

/** Checks that the master allows the MTU and is up: on a master that is down, the kernel does not bring a VLAN up. */
function requireFit(parent: Link, { mtu }: VlanConfig): void {
  requireMtuOfParent(mtu, parent)
  if (parent.flags & IFF_UP) return
  throw new CniError(Code.Internal, `Cannot use the master interface "${parent.name}": it is down`)
}

/** Checks VLAN, protocol, MTU and master of the interface. Throws `CniError`. */
export function checkVlan(checking: Checking, config: VlanConfig): void {
  const { link } = checking
  const data = linkData(link, "vlan")
  if (data?.id !== config.vlanId) throw mismatch(`VLAN of "${link.name}"`, String(config.vlanId), String(data?.id))
  checkSetting(`protocol of "${link.name}"`, vlanProtocols, config.protocol, data.protocol)
  if (config.mtu !== undefined && link.mtu !== config.mtu) {
    throw mismatch(`MTU of "${link.name}"`, String(config.mtu), String(link.mtu))
  }
  checkMaster(checking, config)
}

/**
 * Checks that ADD can use the master, for STATUS. Ignores the VLAN's use in a container, because DEL frees the VLAN.
 */
export function requireVlan({ host }: { host: RouteSocket }, config: VlanConfig): void {
  const parent = findMasterForStatus(host, config)
  if (!parent) return
  requireFit(parent, config)
  requireFreeVlan(host, parent, config)
}

if (import.meta.main) runPlugin(vlan)
