import { type Attaching, type Checking, defineInterfacePlugin, describeInterface } from "../../pkg/attachment/mod.ts"
import { configureLink, mismatch, waitUntil } from "../../pkg/ip/mod.ts"
import { findLink, getLink, type Link, RouteGroup, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Call, runPlugin } from "../../pkg/skel/mod.ts"
import {
  Code,
  type Interface,
  isCniError,
  isOwnerOf,
  type Owner,
  ownerComment,
  type Result,
} from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { type HostDeviceConfig, parseHostDeviceConfig, type Selector } from "./config.ts"
import { findDevice, formerName, isSelected, isUserspace, requireDevice } from "./find.ts"
import { giveBack, giveBackFrom, giveBackFromAll, restoreDevice, restoreOnHost, takeDevice } from "./move.ts"
import { aliasedFormer, readRecord } from "./record.ts"

/** How long the kernel may take to put a device on the host when the device's namespace has gone. */
const RETURN_DEADLINE_MS = 1000

/** Moves a device of the host into a container, and back. */
export const hostDevice = defineInterfacePlugin<HostDeviceConfig>({
  name: "host-device",
  kind: undefined,
  config: parseHostDeviceConfig,
  isUserspace,
  attach: attachDevice,
  check: checkDevice,
  requireUsable: requireAnywhere,
  detach: detachDevice,
  detachOrphans,
})

function attachDevice(attaching: Attaching, result: Result, config: HostDeviceConfig): Interface[] {
  const { call, sandbox, inside } = attaching
  const { selector } = config
  if (!selector || isUserspace(config)) return [{ name: call.ifName, sandbox: call.netns }]
  const link = takeSelected(attaching, selector)
  configureLink({ sandbox, inside, link }, result)
  return [{ ...describeInterface(link), sandbox: call.netns }]
}

function takeSelected(attaching: Attaching, selector: Selector): Link {
  const { host } = attaching
  const found = requireDevice(host, selector)
  try {
    restoreReturned(host, found, selector)
    return takeDevice(attaching, getLink(host, found.index))
  } catch (error) {
    requireDevice(host, selector) // another ADD may have it by now
    throw error
  }
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

function checkDevice({ sandbox, owner, link }: Checking, { selector }: HostDeviceConfig): void {
  const name = formerName(link)
  const what = `device "${link.name}"`
  if (name === undefined) throw mismatch(what, "a device of the host", `a new one of kind "${link.kind}"`)
  const expected = ownerComment(owner)
  const found = readRecord(link, sandbox.inode)?.owner ?? expected // the Go suite writes no owner
  if (found !== expected) throw mismatch(`owner of "${link.name}"`, expected, found)
  if (!mayBeSelected(selector, link)) throw mismatch(what, `"${selector?.text}" of the host`, `"${name}"`)
}

/** What is on which bus only newer kernels say, and not of every device. */
function mayBeSelected(selector: Selector | undefined, link: Link): boolean {
  return !selector || selector.by === "path" || isSelected(selector, link)
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

function detachDevice(call: Call, config: HostDeviceConfig, owner: Owner): void {
  const comment = ownerComment(owner)
  const isOwn = (each: string) => each === comment
  using host = RouteSocket.open()
  if (restoreOnHost(host, isOwn)) return
  using sandbox = Netns.find(call.namespace)
  if (sandbox && giveBackFrom(host, sandbox, isOwn)) return
  if (giveBackFromAll(host, isOwn)) return
  if (sandbox) giveBackUpstreams(host, sandbox, call.ifName, config.selector)
  else if (config.selector && !isUserspace(config)) awaitReturn(host, isOwn, config.selector)
}

/** Gives back the container's interface when it is a device that the Go suite has moved there. */
function giveBackUpstreams(host: RouteSocket, sandbox: Netns, ifName: string, selector: Selector | undefined): void {
  using inside = sandbox.run(() => RouteSocket.open())
  const link = findLink(inside, ifName)
  const former = link && aliasedFormer(link)
  if (!former || readRecord(link, sandbox.inode) || !mayBeSelected(selector, link)) return
  giveBack(host, inside, link, former)
}

/** The kernel deletes a namespace in its own time; then the device is on the host, unless it was a virtual one. */
function awaitReturn(host: RouteSocket, isOwn: (owner: string) => boolean, selector: Selector): void {
  using events = RouteSocket.subscribe(RouteGroup.Link)
  waitUntil(events, RETURN_DEADLINE_MS, () => {
    if (restoreOnHost(host, isOwn)) return true
    const device = findDevice(host, selector)
    if (device) restoreReturned(host, device, selector)
    return device !== undefined
  })
}

function detachOrphans({ network }: Call, valid: readonly Owner[]): void {
  const keep = new Set(valid.map(ownerComment))
  const isOrphan = (owner: string) => isOwnerOf(owner, network.name) && !keep.has(owner)
  using host = RouteSocket.open()
  const failures = new Failures()
  failures.attempt("restore the devices of the host", () => restoreOnHost(host, isOrphan))
  failures.attempt("give back the devices of containers", () => giveBackFromAll(host, isOrphan))
  failures.throwIfAny()
}

if (import.meta.main) runPlugin(hostDevice)
