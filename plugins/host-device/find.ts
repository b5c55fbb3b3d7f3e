import {
  type DeviceRecord,
  DeviceRecords,
  findRecorded,
  findReturnedByKernel,
  hasDriver,
  isBelowParent,
  listInterfaces,
} from "../../pkg/devices/mod.ts"
import {
  findLink,
  IFF_LOOPBACK,
  type Ifindex,
  type Link,
  listLinks,
  listLinksInside,
  listNsids,
  type NetlinkSocket,
} from "../../pkg/netlink/mod.ts"
import { CniError, Code, ownerComment } from "../../pkg/types/mod.ts"
import type { HostDeviceConfig, Selector } from "./config.ts"

/** Reports whether a process drives the device, as with DPDK, so that there is no interface to move. */
export function isUserspace({ pciBusID }: HostDeviceConfig): boolean {
  return pciBusID !== undefined && hasDriver(pciBusID, ["vfio-pci", "uio_pci_generic", "igb_uio"])
}

/**
 * Returns the device on the host; undefined if it does not exist there. Call `restoreReturned` first, because a device
 * that the kernel returned may still have the name that it had in the container.
 */
export function findDevice(host: NetlinkSocket, selector: Selector): Link | undefined {
  switch (selector.by) {
    case "name":
      return findLink(host, selector.text) ?? findReturnedByKernel(host, selector.text)
    case "mac": {
      const found = listLinks(host, (link) => isSelected(selector, link))
      // VLANs, macvlans and bridges have the same MAC as the device below them.
      return found.find(({ attributes }) => attributes.permanentMac === selector.text) ?? found[0]
    }
    case "path": {
      const [name] = selector.directories.flatMap(listInterfaces)
      return name === undefined ? undefined : findLink(host, name)
    }
  }
}

/**
 * Returns the device on the host. Throws code 11 with the current holder if a container has the device. Throws code 7
 * if the device does not exist, is a port of a bridge or a bond, or is the loopback interface.
 */
export function requireDevice(host: NetlinkSocket, selector: Selector): Link {
  const refusal = `Cannot take the device "${selector.text}"`
  const asked = `"${selector.key}" selects it`
  const device = findDevice(host, selector)
  if (device) {
    const reason = whyNot(host, device)
    if (reason === undefined) return device
    throw new CniError(Code.InvalidNetworkConfig, `${refusal}: ${reason}`, { details: asked })
  }
  const holder = findHolder(host, selector)
  if (!holder)
    throw new CniError(Code.InvalidNetworkConfig, `Cannot find the device "${selector.text}"`, { details: asked })
  const details = `${asked}; nsid ${holder.nsid} of "ip netns list-id"`
  throw new CniError(Code.TryAgainLater, `${refusal}: it is ${holder.what}`, { details })
}

function whyNot(host: NetlinkSocket, { flags, attributes: { master } }: Link): string | undefined {
  if (flags & IFF_LOOPBACK) return "it is the loopback interface, which cannot be moved"
  return master === undefined ? undefined : `it is a port of "${findLink(host, master as Ifindex)?.name}"`
}

/**
 * Returns the current holder of a device, for errors: the attachment in the device's record, or a link in another
 * namespace, where the Go suite may have moved the device.
 */
function findHolder(host: NetlinkSocket, selector: Selector): { nsid: number | undefined; what: string } | undefined {
  for (const { owner, record } of new DeviceRecords().list()) {
    if (!isSelectedRecord(selector, record) || !findRecorded(host, record)) continue
    return { nsid: record.nsid, what: `"${owner.ifName}" of ${ownerComment(owner)}` }
  }
  for (const nsid of listNsids(host)) {
    const [link] = listLinksInside(host, nsid, (each) => isSelected(selector, each))
    if (link) return { nsid, what: `"${link.name}" of another namespace` }
  }
  return undefined
}

export function isSelectedRecord(selector: Selector, { device, former }: DeviceRecord): boolean {
  switch (selector.by) {
    case "name":
      return former.name === selector.text || former.altNames.includes(selector.text)
    case "mac":
      return [former.mac, device.permanentMac].includes(selector.text)
    case "path":
      return device.parent === undefined || selector.directories.some((path) => isBelowParent(path, device.parent))
  }
}

/** Reports whether a configuration selects a link without a record. For a name, compares the Go suite's alias. */
export function isSelected(selector: Selector, link: Link): boolean {
  const { permanentMac, parentName, alias } = link.attributes
  switch (selector.by) {
    case "name":
      return alias === selector.text
    case "mac":
      return [link.mac, permanentMac].includes(selector.text)
    case "path":
      return selector.directories.some((directory) => isBelowParent(directory, parentName))
  }
}

/**
 * Reports whether a configuration may select a link, judging by the link's attributes. Returns true if the device is
 * selected by its bus, which older kernels do not report, and newer ones not for all devices.
 */
export function mayBeSelected(selector: Selector | undefined, link: Link): boolean {
  return !selector || selector.by === "path" || isSelected(selector, link)
}
