import { findLinkInside, findNsid, type Link, listLinks, listLinksInside, type NetlinkSocket } from "../netlink/mod.ts"
import { findNamespacePath, type NamespaceFile, Netns } from "../netns/mod.ts"
import { type Owner, ownerComment } from "../types/mod.ts"
import { type Identity, identityOf, isAlike, isHardware } from "./identity.ts"
import { type DeviceRecord, DeviceRecords, type KeptRecord, markOf } from "./record.ts"

/** Of these links of the host the device of a record. Of several that are alike it is the one that has the owner's mark, or the index of before. */
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

/** Links that are no hardware are on the host by its will alone: the mark, which a container can write, tells among them. */
function isDeviceOnHost({ device, hostIndex }: DeviceRecord, link: Link, mark: string): boolean {
  const found = identityOf(link)
  if (!isAlike(found, device)) return false
  if (link.index === hostIndex) return true
  if (isHardware(device)) return found.permanentMac === device.permanentMac
  // Each end of a pair has one other; of another namespace the index and the nsid are given to others when it has gone.
  const isPair = device.kind === "veth" && device.other !== undefined && device.otherNsid === undefined
  return isPair || link.attributes.altNames?.includes(mark) === true
}

/**
 * The device of a record in the namespace that it was given to: what has its index there and is the same device, or the same
 * hardware or end of a pair with another index, which a container can give it. Undefined in another namespace. Throws `NetlinkError`.
 */
export function findInside(host: NetlinkSocket, sandbox: Netns, record: DeviceRecord): Link | undefined {
  const { device, index, netns } = record
  const nsid = sandbox.inode === netns ? findNsid(host, sandbox.fd) : undefined
  if (nsid === undefined || nsid !== record.nsid) return undefined
  const link = findLinkInside(host, nsid, index)
  const view = { nsid, hostNsid: ownNsid(host), isAlone: device.other === undefined }
  if (link && isAlike(identityOf(link, view), device)) return link
  if (!isHardware(device) && device.kind !== "veth") return undefined
  const isSame = (found: Identity) =>
    isAlike(found, device) && (!isHardware(device) || found.permanentMac === device.permanentMac)
  const found = listLinksInside(host, nsid, (each) => isSame(identityOf(each, view)), { kind: device.kind })
  return found.length === 1 ? found[0] : undefined
}

function ownNsid(host: NetlinkSocket): number | undefined {
  using own = Netns.own()
  return findNsid(host, own.fd)
}

/** The namespace of a record: the one that the call names, or another that can be entered. Undefined when it has gone. */
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

/** The device of a record in its namespace, wherever that is. Throws `NetlinkError`. */
export function findRecorded(host: NetlinkSocket, record: DeviceRecord): Link | undefined {
  using namespace = findNamespace(record)
  return namespace && findInside(host, namespace, record)
}

/** Whose devices of the host are in a namespace, by their indexes there. Reads the records when it is first asked. */
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
