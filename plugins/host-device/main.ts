import {
  type Attaching,
  type Checking,
  defineInterfacePlugin,
  describeInterface,
  type Lease,
} from "../../pkg/attachment/mod.ts"
import {
  aliasedFormer,
  formerName,
  readRecord,
  restoreDevice,
  returnDevice,
  returnOrphans,
  takeDevice,
} from "../../pkg/devices/mod.ts"
import { configureLink, mismatch } from "../../pkg/ip/mod.ts"
import { getLink, type Link, listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { type Call, runPlugin } from "../../pkg/skel/mod.ts"
import { Code, type Interface, isCniError, type Owner, ownerComment } from "../../pkg/types/mod.ts"
import { type HostDeviceConfig, hostDeviceFields, parseHostDeviceConfig, type Selector } from "./config.ts"
import { findDevice, isUserspace, mayBeSelected, requireDevice } from "./find.ts"

/** Moves a device of the host into a container, and back. */
export const hostDevice = defineInterfacePlugin<HostDeviceConfig>({
  name: "host-device",
  kind: undefined,
  fields: hostDeviceFields,
  config: parseHostDeviceConfig,
  isUserspace,
  attach: attachDevice,
  check: checkDevice,
  requireUsable: requireAnywhere,
  detach: detachDevice,
  detachOrphans: ({ network }, valid) => returnOrphans(network.name, valid),
})

/** Moves the device into the container. Throws `CniError`. */
export function attachDevice(attaching: Attaching, lease: Lease, config: HostDeviceConfig): Interface[] {
  const { call, sandbox, inside } = attaching
  const { selector } = config
  if (!selector || isUserspace(config)) return [{ name: call.ifName, sandbox: call.netns }]
  const link = takeSelected(attaching, selector)
  configureLink({ sandbox, inside, link }, lease())
  return [{ ...describeInterface(link), sandbox: call.netns }]
}

function takeSelected(attaching: Attaching, selector: Selector): Link {
  const { host } = attaching
  const found = requireDevice(host, selector)
  attaching.leaseEarly()
  try {
    restoreReturned(host, found, selector)
    return takeDevice(attaching, getLink(host, found.index))
  } catch (error) {
    if (!hasIt(attaching)) requireDevice(host, selector) // another ADD may have it by now
    throw error
  }
}

/** Whether it is this attachment that has a device, which is on its way back then. */
function hasIt({ inside, owner }: Attaching): boolean {
  return listLinks(inside, (link) => readRecord(link)?.owner === ownerComment(owner)).length > 0
}

/**
 * Restores a device that the host has again, if the kernel or the Go suite has put it there. Hosts use aliases, too: what only
 * has an alias counts where that is the name asked for, or the kernel has made up the present one.
 */
function restoreReturned(host: RouteSocket, device: Link, { by, text }: Selector): void {
  const aliased = aliasedFormer(device)
  const isAliased = by === "name" ? aliased?.name === text && device.name !== text : /^dev\d+$/.test(device.name)
  if (readRecord(device)) restoreDevice(host, device)
  else if (isAliased) restoreDevice(host, device, aliased)
}

/** Compares whose the device is, and which. Throws `CniError`. */
export function checkDevice({ sandbox, owner, link }: Checking, { selector }: HostDeviceConfig): void {
  const name = formerName(link)
  const what = `device "${link.name}"`
  if (name === undefined) throw mismatch(what, "a device of the host", `a new one of kind "${link.kind}"`)
  const expected = ownerComment(owner)
  const found = readRecord(link, sandbox.inode)?.owner ?? expected // the Go suite writes no owner
  if (found !== expected) throw mismatch(`owner of "${link.name}"`, expected, found)
  if (!mayBeSelected(selector, link)) throw mismatch(what, `"${selector?.text}" of the host`, `"${name}"`)
}

/** A device that a container has is there for another one later: STATUS is about whether any ADD can succeed. */
function requireAnywhere({ host }: { host: RouteSocket }, config: HostDeviceConfig): void {
  if (!config.selector || isUserspace(config)) return
  try {
    requireDevice(host, config.selector)
  } catch (error) {
    if (!isCniError(error, Code.TryAgainLater)) throw error
  }
}

function detachDevice({ namespace, ifName }: Call, config: HostDeviceConfig, owner: Owner): void {
  const selector = isUserspace(config) ? undefined : config.selector
  using host = RouteSocket.open()
  returnDevice(host, {
    ...{ owner, namespace, ifName },
    mayBe: (link) => mayBeSelected(config.selector, link),
    hasReturned: selector && (() => hasReturned(host, selector)),
  })
}

/** What the Go suite has moved, and the kernel has put on the host, has no owner. */
function hasReturned(host: RouteSocket, selector: Selector): boolean {
  const device = findDevice(host, selector)
  if (device) restoreReturned(host, device, selector)
  return device !== undefined
}

if (import.meta.main) runPlugin(hostDevice)
