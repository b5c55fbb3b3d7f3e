import { type Link, linkData } from "../netlink/mod.ts"

/** A device's identity: attributes that no container can change; undefined if the kernel does not report them. */
export interface Identity {
  /** The netlink kind, such as "veth". Empty for devices that netlink did not create. */
  kind: string
  /** The parent device on a bus, such as 0000:03:00.0; the bus; and the port number. */
  parent?: string | undefined
  bus?: string | undefined
  port?: string | undefined
  permanentMac?: string | undefined
  /** The ID of a VLAN, the only attribute in which several VLANs of one parent differ. */
  vlan?: number | undefined
  /** The index of the peer, or of the lower link. */
  other?: number | undefined
  /** The namespace of that link, as the host's nsid; undefined for the host itself. */
  otherNsid?: number | undefined
}

/** The namespace in which a socket of the host lists a link: that of `nsid`, or the host's if undefined. */
interface View {
  nsid?: number | undefined
  /** The host's nsid for itself, if it has one. */
  hostNsid?: number | undefined
  /**
   * Whether the device, such as a vxlan, has no peer or lower link. After a move the kernel reports its index as
   * `link`.
   */
  isAlone?: boolean
}

/** Returns the identity of a link in a list from a socket of the host. */
export function identityOf(link: Link, { nsid, hostNsid, isAlone = false }: View = {}): Identity {
  const { kind, index, attributes } = link
  const { parentName: parent, parentBus: bus, portName: port, permanentMac, link: lower, linkNetnsId } = attributes
  // Older kernels omit the index if both ends have the same index.
  const said = lower ?? (linkNetnsId === undefined ? undefined : index)
  const other = isAlone && said === index ? undefined : said
  const place = linkNetnsId ?? nsid
  const otherNsid = other === undefined || place === hostNsid ? undefined : place
  const vlan = linkData(link, "vlan")?.id
  return { kind, parent, bus, port, permanentMac, vlan, other, otherNsid }
}

/**
 * Reports whether a link is a hardware device. A container can create links of every netlink kind, but none that has a
 * parent on a bus and no lower link. On a kernel before 5.14, which does not report the parent, a link without a kind
 * and with a permanent MAC counts as hardware.
 */
export function isHardware({ kind, parent, bus, permanentMac, other }: Identity): boolean {
  if (other !== undefined) return false
  return (parent !== undefined && bus !== undefined) || (kind === "" && permanentMac !== undefined)
}

/**
 * Reports whether a device counts as not replaced by its container: it is hardware or a dummy, or its peer or lower
 * link is known. A container can replace a tap or a tunnel by another one with the same index.
 */
export function isVouchedFor(device: Identity): boolean {
  return isHardware(device) || device.other !== undefined || device.kind === "dummy"
}

/**
 * Reports whether two identities are equal except for the permanent MAC, which the owner of a virtual function may
 * change. If the kernel reports no parent, as before 5.14, only that MAC distinguishes cards.
 */
export function isAlike(a: Identity, b: Identity): boolean {
  const isPlace = a.parent === b.parent && a.bus === b.bus && a.port === b.port
  if (a.kind === "" && a.parent === undefined && a.permanentMac !== b.permanentMac) return false
  return a.kind === b.kind && isPlace && a.vlan === b.vlan && a.other === b.other && a.otherNsid === b.otherNsid
}
