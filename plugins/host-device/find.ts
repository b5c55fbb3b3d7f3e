import { isErrno, readDirectory, stat } from "../../pkg/libc/mod.ts"
import {
  findLink,
  type Ifindex,
  type Link,
  listLinks,
  listLinksInside,
  listNsids,
  type NetlinkSocket,
} from "../../pkg/netlink/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { HostDeviceConfig, Selector } from "./config.ts"
import { aliasedFormer, readRecord } from "./record.ts"

/** Drivers by which a process runs a device itself: there is no interface to move then. */
const userspaceDrivers = ["vfio-pci", "uio_pci_generic", "igb_uio"]

/** Whether the device is run from user space, as DPDK does. */
export function isUserspace({ pci }: HostDeviceConfig): boolean {
  if (pci === undefined) return false
  return userspaceDrivers.some((driver) => ifThere(() => stat(`/sys/bus/pci/drivers/${driver}/${pci}`)))
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
      const [name] = selector.directories.flatMap(busDevices).flatMap(({ names }) => names)
      return name === undefined ? undefined : findLink(host, name)
    }
  }
}

/**
 * Likewise. Throws code 11 when a container has the device, with the attachment's name, and code 7 when it is nowhere, or a port
 * of a bridge or a bond.
 */
export function requireDevice(host: NetlinkSocket, selector: Selector): Link {
  const device = findDevice(host, selector)
  const { text } = selector
  if (!device) throw notOnHost(host, selector)
  const { master } = device.attributes
  if (master === undefined) return device
  const bridge = findLink(host, master as Ifindex)?.name
  throw new CniError(Code.InvalidNetworkConfig, `Cannot take the device "${text}": it is a port of "${bridge}"`)
}

function notOnHost(host: NetlinkSocket, selector: Selector): CniError {
  const { text } = selector
  for (const nsid of listNsids(host)) {
    const [link] = listLinksInside(host, nsid, (link) => isSelected(selector, link))
    if (!link) continue
    const owner = readRecord(link)?.owner ?? "another namespace"
    return new CniError(Code.TryAgainLater, `Cannot take the device "${text}": it is "${link.name}" of ${owner}`, {
      details: `nsid ${nsid} of "ip netns list-id"`,
    })
  }
  return new CniError(Code.InvalidNetworkConfig, `Cannot find the device "${text}"`)
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
      return selector.directories.flatMap(busDevices).some(({ name }) => name === parentName)
  }
}

/** Under which name a link was on the host. */
export function formerName(link: Link): string | undefined {
  return (readRecord(link)?.former ?? aliasedFormer(link))?.name
}

/** A device in sysfs, or the virtio device in it, and the names of its interfaces that are on the host. */
function busDevices(directory: string): { name: string; names: string[] }[] {
  const virtio = list(directory).filter((name) => name.startsWith("virtio"))
  return [directory, ...virtio.map((name) => `${directory}/${name}`)].map((path) => {
    return { name: path.slice(path.lastIndexOf("/") + 1), names: list(`${path}/net`) }
  })
}

function list(directory: string): string[] {
  return (ifThere(() => readDirectory(directory)) ?? []).sort()
}

function ifThere<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return undefined
    throw error
  }
}
