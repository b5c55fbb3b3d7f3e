import {
  type Attaching,
  type Checking,
  configureInterface,
  defineInterfacePlugin,
  type Lease,
} from "../../pkg/attachment/mod.ts"
import {
  DeviceRecords,
  findInside,
  renameReturnedByKernel,
  restoreAllReturned,
  restoreReturned,
  returnDevice,
  returnOrphans,
  takeDevice,
} from "../../pkg/devices/mod.ts"
import { mismatch } from "../../pkg/ip/mod.ts"
import { type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { type Call, runPlugin } from "../../pkg/skel/mod.ts"
import { Code, type Interface, isCniError, type Owner } from "../../pkg/types/mod.ts"
import { type HostDeviceConfig, hostDeviceFields, parseHostDeviceConfig, type Selector } from "./config.ts"
import { findDevice, isSelected, isSelectedRecord, isUserspace, mayBeSelected, requireDevice } from "./find.ts"

export { hostDeviceKeyDocs } from "./config.ts"

/** Moves a device of the host into a container, and back. */
export const hostDevice = defineInterfacePlugin<HostDeviceConfig>({
  name: "host-device",
  kind: undefined,
  fields: hostDeviceFields,
  config: parseHostDeviceConfig,
  isUserspace,
  prepare: requireSelected,
  attach: attachDevice,
  check: checkDevice,
  requireUsable: requireAnywhere,
  detach: detachDevice,
  detachOrphans: ({ network }, valid) => returnOrphans(network.name, valid),
})

/** Moves the device into the container. Throws `CniError`. */
export function attachDevice(attaching: Attaching, lease: Lease, config: HostDeviceConfig): Interface[] {
  const { call } = attaching
  const { selector } = config
  if (!selector || isUserspace(config)) return [{ name: call.ifName, sandbox: call.netns }]
  return configureInterface(attaching, takeSelected(attaching, selector), lease, config)
}

/** Restores devices that the kernel returned, then checks that the selected one is on the host. Throws `CniError`. */
function requireSelected({ host }: Attaching, config: HostDeviceConfig): void {
  if (!config.selector || isUserspace(config)) return
  restoreAllReturned(host)
  requireDevice(host, config.selector)
}

function takeSelected(attaching: Attaching, selector: Selector): Link {
  const { host } = attaching
  using _lock = new DeviceRecords().open()
  restoreReturned(host)
  return takeDevice(attaching, restorePutBack(host, requireDevice(host, selector), selector))
}

/** Restores the former name of a device that the Go suite moved into a container and the kernel returned. */
function restorePutBack(host: RouteSocket, device: Link, { by, text }: Selector): Link {
  const { alias, altNames } = device.attributes
  const isPutBack = by === "name" && device.name !== text && alias === text && !altNames?.includes(text)
  return isPutBack ? renameReturnedByKernel(host, device, text) : device
}

/** Checks that the interface is the selected device of the host, moved for this owner. Throws `CniError`. */
export function checkDevice({ host, sandbox, owner, link }: Checking, { selector }: HostDeviceConfig): void {
  const record = new DeviceRecords().read(owner)
  const what = `device "${link.name}"`
  const isDevice = record ? findInside(host, sandbox, record)?.index === link.index : Boolean(link.attributes.alias)
  if (!isDevice) throw mismatch(what, "a device of the host", `a new one of kind "${link.kind}"`)
  if (!selector || (record ? isSelectedRecord(selector, record) : mayBeSelected(selector, link))) return
  throw mismatch(what, `"${selector.text}" of the host`, `"${record?.former.name ?? link.attributes.alias}"`)
}

/** Checks that the device exists, for STATUS. It may be in another container, because that container will return it. */
function requireAnywhere({ host }: { host: RouteSocket }, config: HostDeviceConfig): void {
  if (isUserspace(config)) return
  new DeviceRecords().requireWritable()
  if (!config.selector) return
  try {
    requireDevice(host, config.selector)
  } catch (error) {
    if (!isCniError(error, Code.TryAgainLater)) throw error
  }
}

function detachDevice({ namespace, ifName, log }: Call, config: HostDeviceConfig, owner: Owner): void {
  const selector = isUserspace(config) ? undefined : config.selector
  using host = RouteSocket.open()
  returnDevice(host, {
    owner,
    namespace,
    ifName,
    log,
    name: selector?.by === "name" ? selector.text : undefined,
    mayBe: (link) => mayBeUnrecorded(selector, link),
    hasReturned: selector && (() => hasReturned(host, selector)),
  })
}

/**
 * Reports whether a link without a record may be the device. Returns true in doubt: the container may have changed the
 * link's alias, and older kernels do not report the device's bus.
 */
function mayBeUnrecorded(selector: Selector | undefined, link: Link): boolean {
  if (!selector || selector.by === "name") return true
  return (selector.by === "path" && link.attributes.parentName === undefined) || isSelected(selector, link)
}

/**
 * Reports whether the selected device is on the host. Restores its name, even without a record, as for the Go suite.
 */
function hasReturned(host: RouteSocket, selector: Selector): boolean {
  restoreAllReturned(host)
  const device = findDevice(host, selector)
  if (device) restorePutBack(host, device, selector)
  return device !== undefined
}

if (import.meta.main) runPlugin(hostDevice)
