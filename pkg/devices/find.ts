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

/** Finds the device of a record among these links of the host. Among several alike, the one with the owner's mark or the former index is chosen. */
export function findAmong(links: readonly Link[], { owner, record }: KeptRecord): Link | undefined {
  const mark = markOf(owner)
  const found = links.filter((link) => isDeviceOnHost(record, link, mark))
  if (found.length < 2) return found[0]
  const marked = found.find(({ attributes }) => attributes.altNames?.includes(mark))
  return marked ?? found.find(({ index }) => index === record.hostIndex)
}

/** The device of a record, if the host has it. Throws `NetlinkError`. */
export function findOnHost(host: NetlinkSocket, kept: KeptRecord): Link | undefined {
  const { device } = kept.record
  return findAmong(
    listLinks(host, (link) => isAlike(identityOf(link), device)),
    kept,
  )
}

/**
 * Hardware is told by its place and its permanent MAC. A virtual link has no attribute that another one of its kind cannot have, and its
 * index is given to another one after it was deleted: on the host only the mark of its owner proves which one it is.
 */
function isDeviceOnHost({ device, hostIndex }: DeviceRecord, link: Link, mark: string): boolean {
  const found = identityOf(link)
  if (!isAlike(found, device)) return false
  if (!isHardware(device)) return link.attributes.altNames?.includes(mark) === true
  return link.index === hostIndex || found.permanentMac === device.permanentMac
}

/**
 * The device of a record in the namespace that it was given to: what has its index there and is the same device, or the same
 * hardware or end of a pair with another index, which a container can give it. Undefined in another namespace. Throws `NetlinkError`.
 */
export function findInside(host: NetlinkSocket, sandbox: Netns, record: DeviceRecord): Link | undefined {
  const { device, index, netns } = record
  const nsid = sandbox.inode === netns ? findNsid(host, sandbox.fd) : undefined
  if (nsid === undefined || nsid !== record.nsid) return undefined
  // Looked up after the links: the kernel may give the host a number of its own when it first tells of one that leads here.
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
 * Returns the device among the links of its namespace: the link at its index. When that is a port with another
 * permanent MAC, and another port has the device's, it returns the latter: a container can exchange the indexes of two
 * ports. The host may have changed the MAC of a virtual function.
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

/** The namespace of a record: the one that the call names, or another that can be entered. Undefined when it no longer exists. */
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

/** The device of a record in its namespace. Throws `NetlinkError`. */
export function findRecorded(host: NetlinkSocket, record: DeviceRecord): Link | undefined {
  using namespace = findNamespace(record)
  return namespace && findInside(host, namespace, record)
}

/**
 * Whether a device that is not found may be in a namespace of its container's own: the one that it was given to lives, and it is
 * hardware, or a pair's end of which the other one is on the host and leads to another namespace. The numbers of
 * other namespaces are given to others when they are deleted. Throws `NetlinkError`.
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

/** The owners of the host's devices in a namespace, by their indexes there. The records are read at the first question. */
export class GivenDevices {
  readonly #inode: bigint
  #owners: Map<number, Owner> | undefined

  constructor({ inode }: Pick<Netns, "inode">) {
    this.#inode = inode
  }

  /** The attachment that was given a link of the namespace, as `ownerComment` writes it. Throws `CniError`. */
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
