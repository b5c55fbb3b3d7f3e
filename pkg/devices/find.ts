import {
  findLink,
  findLinkInside,
  findNsid,
  type Ifindex,
  type Link,
  listLinks,
  listLinksInside,
  type NetlinkSocket,
} from "../netlink/mod.ts"
import { findNamespacePath, type NamespaceFile, Netns } from "../netns/mod.ts"
import { type Owner, ownerComment } from "../types/mod.ts"
import { type Identity, identityOf, isAlike, isHardware } from "./identity.ts"
import { type DeviceRecord, DeviceRecords, type KeptRecord, markOf } from "./record.ts"

/**
 * Finds a record's device among the host's links. If several match, prefers one with the owner's mark or the former
 * index.
 */
export function findAmong(links: readonly Link[], { owner, record }: KeptRecord): Link | undefined {
  const mark = markOf(owner)
  const found = links.filter((link) => isDeviceOnHost(record, link, mark))
  if (found.length < 2) return found[0]
  const marked = found.find(({ attributes }) => attributes.altNames?.includes(mark))
  return marked ?? found.find(({ index }) => index === record.hostIndex)
}

/** Returns the device of a record if the host has it. Throws `NetlinkError`. */
export function findOnHost(host: NetlinkSocket, kept: KeptRecord): Link | undefined {
  const { device } = kept.record
  return findAmong(
    listLinks(host, (link) => isAlike(identityOf(link), device)),
    kept,
  )
}

/**
 * Reports whether a link of the host is the device. Hardware is identified by its position on a bus and its permanent
 * MAC. A virtual link on the host is identified only by the owner's mark: another link of its kind can have the same
 * attributes, and the kernel reuses the index of a deleted link.
 */
function isDeviceOnHost({ device, hostIndex }: DeviceRecord, link: Link, mark: string): boolean {
  const found = identityOf(link)
  if (!isAlike(found, device)) return false
  if (!isHardware(device)) return link.attributes.altNames?.includes(mark) === true
  return link.index === hostIndex || found.permanentMac === device.permanentMac
}

/**
 * Returns the device of a record in its namespace: the link at the recorded index, if it is the same device. A
 * container can change the index of hardware or of a pair's end, so these are also found at another index. Returns
 * undefined if `sandbox` is not the recorded namespace. Throws `NetlinkError`.
 */
export function findInside(host: NetlinkSocket, sandbox: Netns, record: DeviceRecord): Link | undefined {
  const { device, index, netns } = record
  const nsid = sandbox.inode === netns ? findNsid(host, sandbox.fd) : undefined
  if (nsid === undefined || nsid !== record.nsid) return undefined
  // Looked up after the links: the kernel may assign an nsid to the host when it first reports a link with its peer on
  // the host.
  const look = () => ({ nsid, hostNsid: ownNsid(host), isAlone: device.other === undefined })
  const atIndex = findLinkInside(host, nsid, index)
  let view = look()
  const list = () => {
    const links = listLinksInside(host, nsid, () => true, { kind: device.kind })
    view = look()
    return links
  }
  return chooseInside(device, { atIndex, list }, (link) => identityOf(link, view))
}

/**
 * Returns the device among the links of its namespace: the link at its index. A container can exchange the indexes of
 * two ports, so the only port with the device's permanent MAC wins over that link. If no port has that MAC, the index
 * decides, because the host can change the MAC of a virtual function.
 */
export function chooseInside(
  device: Identity,
  { atIndex, list }: { atIndex: Link | undefined; list: () => Link[] },
  identify: (link: Link) => Identity,
): Link | undefined {
  const hasItsMac = (link: Link) => !isHardware(device) || identify(link).permanentMac === device.permanentMac
  const isDevice = (link: Link) => isAlike(identify(link), device)
  const likely = atIndex && isDevice(atIndex) ? atIndex : undefined
  if (likely && hasItsMac(likely)) return likely
  if (!isHardware(device) && device.kind !== "veth") return undefined
  const found = list().filter((link) => isDevice(link) && hasItsMac(link))
  return found.length === 1 ? found[0] : likely
}

function ownNsid(host: NetlinkSocket): number | undefined {
  using own = Netns.own()
  return findNsid(host, own.fd)
}

/** Returns a record's namespace: `named` if it is the one, or by another path; undefined if it no longer exists. */
export function findNamespace(record: DeviceRecord, named?: NamespaceFile): Netns | undefined {
  const found = named && Netns.find(named)
  if (found?.inode === record.netns) return found
  found?.[Symbol.dispose]()
  const path = findNamespacePath(record.netns)
  const other = path === undefined ? undefined : Netns.find(path)
  if (other?.inode === record.netns) return other
  other?.[Symbol.dispose]()
  return undefined
}

/** Returns the device of a record in its namespace. Throws `NetlinkError`. */
export function findRecorded(host: NetlinkSocket, record: DeviceRecord): Link | undefined {
  using namespace = findNamespace(record)
  return namespace && findInside(host, namespace, record)
}

/**
 * Reports whether a missing device may be in a namespace that its container created: the original namespace exists, and
 * the device is hardware, or a pair's end whose peer on the host reports another namespace. That namespace's nsid is
 * not compared, because the kernel reuses nsids. Throws `NetlinkError`.
 */
export function mayBeHidden(host: NetlinkSocket, record: DeviceRecord): boolean {
  if (!isHardware(record.device) && !hasOtherEnd(host, record.device)) return false
  using namespace = findNamespace(record)
  return namespace !== undefined
}

function hasOtherEnd(host: NetlinkSocket, { kind, other, otherNsid }: Identity): boolean {
  if (kind !== "veth" || other === undefined || otherNsid !== undefined) return false
  const end = findLink(host, other as Ifindex)
  return end?.kind === "veth" && end.attributes.linkNetnsId !== undefined
}

/**
 * The owners of the host's devices in a namespace, by the devices' indexes in it. The first search reads the records.
 */
export class GivenDevices {
  readonly #inode: bigint
  #owners: Map<number, Owner> | undefined

  constructor({ inode }: Pick<Netns, "inode">) {
    this.#inode = inode
  }

  /**
   * Returns the attachment that received this link of the namespace, in the form of `ownerComment`. Throws `CniError`.
   */
  findOwner({ index }: Pick<Link, "index">): string | undefined {
    this.#owners ??= new Map(
      new DeviceRecords()
        .list()
        .filter(({ record }) => record.netns === this.#inode)
        .map(({ owner, record }) => [record.index, owner]),
    )
    const owner = this.#owners.get(index)
    return owner && ownerComment(owner)
  }
}
