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
import { type Link, linkData, macvlanModes, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import type { Interface } from "../../pkg/types/mod.ts"
import { type MacvlanConfig, macvlanFields, parseMacvlanConfig } from "./config.ts"

export { macvlanKeyDocs } from "./config.ts"

/** Gives a container an interface with its own MAC on an interface of the host. */
export const macvlan = defineInterfacePlugin<MacvlanConfig, Link>({
  name: "macvlan",
  kind: "macvlan",
  takesAddresses: true,
  fields: macvlanFields,
  config: parseMacvlanConfig,
  prepare: prepareMaster,
  attach: attachMacvlan,
  check: checkMacvlan,
  requireUsable: requireUsableMaster,
})

/** Returns the master. Throws `CniError` if it does not exist, or if it does not allow the MTU. */
export function prepareMaster(attaching: Attaching, config: MacvlanConfig): Link {
  const parent = requireMaster(attaching, config)
  requireMtuOfParent(config.mtu, parent)
  return parent
}

/** Creates the interface on its master. Throws `CniError`. */
export function attachMacvlan(attaching: Attaching, lease: Lease, config: MacvlanConfig, parent: Link): Interface[] {
  const { linkInContainer, mode, mtu, mac, bcqueuelen } = config
  const data = { mode: macvlanModes[mode], broadcastQueueLength: bcqueuelen }
  const link = addInterface(attaching, { kind: "macvlan", parent, parentInside: linkInContainer, mtu, mac, data })
  return configureInterface(attaching, link, lease, config)
}

/** Checks mode and master of the interface. Throws `CniError`. */
export function checkMacvlan(checking: Checking, config: MacvlanConfig): void {
  const { link } = checking
  checkSetting(`mode of "${link.name}"`, macvlanModes, config.mode, linkData(link, "macvlan")?.mode)
  checkMaster(checking, config)
}

/** Checks that ADD can use the master, for STATUS. Throws `CniError`. */
export function requireUsableMaster({ host }: { host: RouteSocket }, config: MacvlanConfig): void {
  const parent = findMasterForStatus(host, config)
  if (parent) requireMtuOfParent(config.mtu, parent)
}

if (import.meta.main) runPlugin(macvlan)
