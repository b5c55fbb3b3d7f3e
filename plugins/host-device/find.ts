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

/** Whether a process drives the device, as with DPDK: it then has no interface to move. */
export function isUserspace({ pciBusID }: HostDeviceConfig): boolean {
  return pciBusID !== undefined && hasDriver(pciBusID, ["vfio-pci", "uio_pci_generic", "igb_uio"])
}

/**
 * Returns the device on the host; undefined if it does not exist. Devices with a record have been returned before, see
 * `restoreReturned`.
 */
export function findDevice(host: NetlinkSocket, selector: Selector): Link | undefined {
  switch (selector.by) {
    case "name":
      return findLink(host, selector.text) ?? findReturnedByKernel(host, selector.text)
    case "mac": {
      const found = listLinks(host, (link) => isSelected(selector, link))
      // VLANs, macvlans and bridges have the MAC of the device below them.
      return found.find(({ attributes }) => attributes.permanentMac === selector.text) ?? found[0]
    }
    case "path": {
      const [name] = selector.directories.flatMap(listInterfaces)
      return name === undefined ? undefined : findLink(host, name)
    }
  }
}

/**
 * Like `findDevice`, but throws code 11 if a container has the device, with the attachment's name, and code 7 if it
 * does not exist, is a port of a bridge or a bond, or is the loopback interface.
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
 * Returns the holder of a device, for errors: the attachment of its record, or a namespace with a link that looks like
 * one of the Go suite.
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

/** Whether the device of a record is the one of a configuration. */
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

/**
 * Whether a link without a record can be the device of a configuration: its alias is the name that the Go suite wrote.
 */
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
 * Like `isSelected`, by the link's attributes only: only newer kernels report the bus of a device, and not for all
 * devices.
 */
export function mayBeSelected(selector: Selector | undefined, link: Link): boolean {
  return !selector || selector.by === "path" || isSelected(selector, link)
}
