import { type Link, linkData } from "../netlink/mod.ts"

/**
 * A device's identity: attributes that the kernel reports and no container can change. An undefined one is not reported
 * of this one.
 */
export interface Identity {
  /** "veth", …; empty for devices that were not made by netlink. */
  kind: string
  /** The device on a bus that it is a part of, such as 0000:03:00.0, the bus, and which of its ports. */
  parent?: string | undefined
  bus?: string | undefined
  port?: string | undefined
  /** The permanent MAC of the hardware. */
  permanentMac?: string | undefined
  /** The ID of a VLAN: several of one parent are alike in all else. */
  vlan?: number | undefined
  /** The index of a pair's other end, or of the link that it sits on. */
  other?: number | undefined
  /** The namespace of that one: the host's nsid for it, undefined for the host itself. */
  otherNsid?: number | undefined
}

/** From where a link was seen: by the host, in the namespace of this nsid; on the host itself when it is undefined. */
interface View {
  nsid?: number | undefined
  /** The nsid that the host has for itself, if it has one. */
  hostNsid?: number | undefined
  /** That it was a device without another end. Of one that was moved, such as a vxlan, the kernel says its own index then. */
  isAlone?: boolean
}

/** The identity of a link that a socket of the host has listed. */
export function identityOf(link: Link, { nsid, hostNsid, isAlone = false }: View = {}): Identity {
  const { kind, index, attributes } = link
  const { parentName: parent, parentBus: bus, portName: port, permanentMac, link: lower, linkNetnsId } = attributes
  // Older kernels leave the index out when both ends have the same one, each in its namespace.
  const said = lower ?? (linkNetnsId === undefined ? undefined : index)
  const other = isAlone && said === index ? undefined : said
  const place = linkNetnsId ?? nsid
  const otherNsid = other === undefined || place === hostNsid ? undefined : place
  const vlan = linkData(link, "vlan")?.id
  return { kind, parent, bus, port, permanentMac, vlan, other, otherNsid }
}

/**
 * Whether a link is a hardware device. A container can make links of every netlink kind, but no link that has a parent
 * on a bus and no lower link. Kernels before 5.14 do not tell the parent; there it is a link without a kind and with a
 * permanent MAC.
 */
export function isHardware({ kind, parent, bus, permanentMac, other }: Identity): boolean {
  if (other !== undefined) return false
  return (parent !== undefined && bus !== undefined) || (kind === "" && permanentMac !== undefined)
}

/**
 * Whether a container cannot have replaced this device: it is hardware, or its peer is known, or its kind has no peer.
 * A container can replace a tap or a tunnel by another one with the same index.
 */
export function isVouchedFor(device: Identity): boolean {
  return isHardware(device) || device.other !== undefined || device.kind === "dummy"
}

/**
 * Whether two say the same of all but the permanent MAC, which the owner of a virtual function may change. Where the kernel says no
 * parent, as before 5.14, nothing but that MAC tells one card from another.
 */
export function isAlike(a: Identity, b: Identity): boolean {
  const isPlace = a.parent === b.parent && a.bus === b.bus && a.port === b.port
  if (a.kind === "" && a.parent === undefined && a.permanentMac !== b.permanentMac) return false
  return a.kind === b.kind && isPlace && a.vlan === b.vlan && a.other === b.other && a.otherNsid === b.otherNsid
}
