import type { Infer } from "./codec.ts"
import type { Ifindex, NamedLink } from "./links.ts"
import { NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_EXCL, readAnswer } from "./message.ts"
import type { NetlinkSocket } from "./socket.ts"
import {
  htbClass,
  INGRESS_HANDLE,
  type QdiscKind,
  type QdiscOptions,
  qdiscKinds,
  TC_H_INGRESS,
  TC_H_ROOT,
  trafficPayload,
} from "./traffic-table.ts"

/** <linux/rtnetlink.h> */
const RTM_NEWQDISC = 36
const RTM_DELQDISC = 37
const RTM_GETQDISC = 38
const RTM_NEWTCLASS = 40
const RTM_GETTCLASS = 42
/** <asm-generic/errno-base.h> */
const ENOENT = 2

/** A qdisc as the kernel describes it. */
export interface Qdisc {
  kind: string
  /** Major and minor number combined: 0x10000 is `1:`. */
  handle: number
  parent: number
  /** `TCA_OPTIONS`; see `qdiscOptions`. */
  options: Uint8Array
}

/** A qdisc to add, at the root unless a parent is given. */
export interface QdiscSpec<K extends QdiscKind> {
  kind: K
  parent?: number
  /** The handle; the kernel chooses one if undefined. */
  handle?: number
  options: QdiscOptions<K>
}

/**
 * Adds a qdisc, like `tc qdisc add dev LINK root handle 1: tbf …`. Throws `EEXIST` if the link has a qdisc other than
 * the kernel's default, and `ENOENT` for a kind that the kernel does not support.
 */
export function addQdisc<K extends QdiscKind>(route: NetlinkSocket, device: NamedLink, spec: QdiscSpec<K>): void {
  const { kind, parent = TC_H_ROOT, handle = 0, options } = spec
  const payload = trafficPayload.encode(
    { index: device.index, handle, parent },
    { kind, options: qdiscKinds[kind].encode(options as never) },
  )
  const flags = NLM_F_CREATE | NLM_F_EXCL
  route.execute({ type: RTM_NEWQDISC, flags, what: `add qdisc ${kind} to "${device.name}"`, payload })
}

/** Adds a qdisc like `tc qdisc add dev LINK ingress`. Throws `EEXIST` if the link has "ingress" or "clsact". */
export function addIngress(route: NetlinkSocket, device: NamedLink): void {
  addQdisc(route, device, { kind: "ingress", parent: TC_H_INGRESS, handle: INGRESS_HANDLE, options: {} })
}

/** Returns the qdisc at `TC_H_ROOT` or `TC_H_INGRESS`, like `tc qdisc show`; undefined for the kernel's default. */
export function findQdisc(route: NetlinkSocket, device: NamedLink, parent: number): Qdisc | undefined {
  const payload = trafficPayload.encode({ index: device.index, parent })
  // Without NLM_F_ECHO the kernel reports a qdisc to all listeners except the requester. It reports no default qdisc;
  // in this case the acknowledgement ends the wait.
  const request = {
    type: RTM_GETQDISC,
    flags: NLM_F_ECHO | NLM_F_ACK,
    what: `find a qdisc of "${device.name}"`,
    payload,
  }
  return route.find(request, ENOENT, (message) => {
    const { header, attributes } = trafficPayload.decode(message.payload)
    const { kind = "", options = new Uint8Array() } = attributes
    return header.handle === 0 ? undefined : { kind, handle: header.handle, parent: header.parent, options }
  })
}

/** Returns all qdiscs of the namespace with their links, like `tc qdisc show`, without the kernel's default qdiscs. */
export function listQdiscs(route: NetlinkSocket): (Omit<Qdisc, "options"> & { index: Ifindex })[] {
  const payload = trafficPayload.encode({})
  return route.dump({ type: RTM_GETQDISC, what: "list the qdiscs", payload }, (message) => {
    const { header, attributes } = trafficPayload.decode(message.payload)
    const { index, handle, parent } = header
    return handle === 0 ? undefined : { kind: attributes.kind ?? "", handle, parent, index: index as Ifindex }
  })
}

/** Returns the options of a qdisc of the given kind; undefined for a qdisc of another kind. */
export function qdiscOptions<K extends QdiscKind>(
  { kind: found, options }: Qdisc,
  kind: K,
): QdiscOptions<K> | undefined {
  if (found !== kind) return undefined
  return readAnswer(`read the options of a qdisc of kind ${kind}`, () =>
    qdiscKinds[kind].decode(options),
  ) as QdiscOptions<K>
}

/** Deletes the qdisc at `TC_H_ROOT` or `TC_H_INGRESS` and all below it, like `tc qdisc del`. Throws `ENOENT`. */
export function deleteQdisc(route: NetlinkSocket, device: NamedLink, parent: number): void {
  const payload = trafficPayload.encode({ index: device.index, parent })
  route.execute({ type: RTM_DELQDISC, what: `delete a qdisc of "${device.name}"`, payload })
}

/** A class of htb. */
export interface HtbClass {
  /** Major and minor number combined: 0x10001 is `1:1`. */
  id: number
  options: Infer<typeof htbClass>
}

/** Adds a class, like `tc class add dev LINK parent 1: classid 1:1 htb rate …`. Throws `EEXIST` if it exists. */
export function addHtbClass(route: NetlinkSocket, device: NamedLink, { id, options }: HtbClass): void {
  const payload = trafficPayload.encode(
    { index: device.index, handle: id, parent: (id & 0xffff0000) >>> 0 },
    { kind: "htb", options: htbClass.encode(options) },
  )
  const flags = NLM_F_CREATE | NLM_F_EXCL
  route.execute({ type: RTM_NEWTCLASS, flags, what: `add a class to "${device.name}"`, payload })
}

/** Returns the classes of a link's htb qdisc, like `tc class show dev LINK`. */
export function listHtbClasses(route: NetlinkSocket, device: NamedLink): HtbClass[] {
  const payload = trafficPayload.encode({ index: device.index })
  return route.dump({ type: RTM_GETTCLASS, what: `list the classes of "${device.name}"`, payload }, (message) => {
    const { header, attributes } = trafficPayload.decode(message.payload)
    const { kind, options } = attributes
    return kind === "htb" && options ? { id: header.handle, options: htbClass.decode(options) } : undefined
  })
}
