import { findElsewhere, formerName, hasDriver, listInterfaces, readRecord, wouldBeOn } from "../../pkg/devices/mod.ts"
import {
  findLink,
  IFF_LOOPBACK,
  type Ifindex,
  type Link,
  listLinks,
  type NetlinkSocket,
} from "../../pkg/netlink/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { HostDeviceConfig, Selector } from "./config.ts"

/** Whether the device is run by a process, as DPDK does it: there is no interface to move then. */
export function isUserspace({ pci }: HostDeviceConfig): boolean {
  return pci !== undefined && hasDriver(pci, ["vfio-pci", "uio_pci_generic", "igb_uio"])
}

/** The device on the host; undefined when it is not there. */
export function findDevice(host: NetlinkSocket, selector: Selector): Link | undefined {
  switch (selector.by) {
    case "name": {
      // The kernel may have put it there when its namespace went, under another name.
      return findLink(host, selector.text) ?? listLinks(host, (link) => isSelected(selector, link))[0]
    }
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
 * Likewise. Throws code 11 when a container has the device, with the attachment's name, and code 7 when it is nowhere, a port
 * of a bridge or a bond, or the loopback interface.
 */
export function requireDevice(host: NetlinkSocket, selector: Selector): Link {
  const refusal = `Cannot take the device "${selector.text}"`
  const asked = `"${selector.key}" asks for it`
  const device = findDevice(host, selector)
  if (device) {
    const reason = whyNot(host, device)
    if (reason === undefined) return device
    throw new CniError(Code.InvalidNetworkConfig, `${refusal}: ${reason}`, { details: asked })
  }
  const found = findElsewhere(host, (link) => isSelected(selector, link))
  if (!found)
    throw new CniError(Code.InvalidNetworkConfig, `Cannot find the device "${selector.text}"`, { details: asked })
  const { link, nsid, owner = "another namespace" } = found
  const details = `${asked}; nsid ${nsid} of "ip netns list-id"`
  throw new CniError(Code.TryAgainLater, `${refusal}: it is "${link.name}" of ${owner}`, { details })
}

function whyNot(host: NetlinkSocket, { flags, attributes: { master } }: Link): string | undefined {
  if (flags & IFF_LOOPBACK) return "it is the loopback interface, which no namespace can give away"
  return master === undefined ? undefined : `it is a port of "${findLink(host, master as Ifindex)?.name}"`
}

/** Whether a link, wherever it is, is the device that a configuration means. */
export function isSelected(selector: Selector, link: Link): boolean {
  const { altNames = [], permanentMac, parentName } = link.attributes
  switch (selector.by) {
    case "name":
      return formerName(link) === selector.text || altNames.includes(selector.text)
    case "mac":
      return [link.mac, permanentMac, readRecord(link)?.former?.mac].includes(selector.text)
    case "path":
      return selector.directories.some((directory) => wouldBeOn(directory, parentName))
  }
}

/** Likewise, as far as links tell: what is on which bus only newer kernels say, and not of every device. */
export function mayBeSelected(selector: Selector | undefined, link: Link): boolean {
  return !selector || selector.by === "path" || isSelected(selector, link)
}
