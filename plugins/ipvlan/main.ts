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
} from "../../pkg/attachment/mod.ts"
import { ipvlanFlags, ipvlanModes, type Link, linkData } from "../../pkg/netlink/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import type { Interface } from "../../pkg/types/mod.ts"
import { type IpvlanConfig, ipvlanFields, parseIpvlanConfig } from "./config.ts"

export { ipvlanKeyDocs } from "./config.ts"

/**
 * Gives a container an interface on an interface of the host, with the same MAC, for networks that accept no other MAC.
 */
export const ipvlan = defineInterfacePlugin<IpvlanConfig, Link>({
  name: "ipvlan",
  kind: "ipvlan",
  takesAddresses: true,
  fields: ipvlanFields,
  config: parseIpvlanConfig,
  prepare: requireMaster,
  attach: attachIpvlan,
  check: checkIpvlan,
  requireUsable: ({ host }, config) => void findMasterForStatus(host, config),
})

/** Creates the interface on its master. Throws `CniError`. */
export function attachIpvlan(attaching: Attaching, lease: Lease, config: IpvlanConfig, parent: Link): Interface[] {
  const { mode, flag, mtu, linkInContainer } = config
  const data = { mode: ipvlanModes[mode], flags: ipvlanFlags[flag] }
  const spec = { kind: "ipvlan", parent, parentInside: linkInContainer, mtu, mac: undefined, data } as const
  const link = addInterface(attaching, spec)
  return configureInterface(attaching, link, lease, config)
}

/** Checks mode, flag and master. All interfaces of a master have the mode and flag of the interface created last. */
export function checkIpvlan(checking: Checking, config: IpvlanConfig): void {
  const { link } = checking
  const data = linkData(link, "ipvlan")
  checkSetting(`mode of "${link.name}"`, ipvlanModes, config.mode, data?.mode)
  checkSetting(`flag of "${link.name}"`, ipvlanFlags, config.flag, data?.flags)
  checkMaster(checking, config)
}

if (import.meta.main) runPlugin(ipvlan)
